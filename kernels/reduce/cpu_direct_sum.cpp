// Sums of f16 and bf16 in AVX-512 intrinsics with 32 accumulators in f64. Shifts and masks turn a float into
// a scaled double. They would hide inf and NaN, so input that holds one is detected and refused.
#include "mezzo/kernels/reduce/cpu_source.h"

#include <algorithm>
#include <cstring>

#include "mezzo/core/float16.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/reduce/cpu_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mezzo::kernels::cpu::detail {

#if defined(__x86_64__)
namespace {

#define MEZZO_INLINE_V4 [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] static inline

/// A 16-bit float becomes a double by integer work alone: sign and magnitude move to the upper bits, where
/// the number is its value times a power of two that is the same for all. The scaled numbers are added up,
/// and the sum is multiplied once. That changes no bit: scaled values are multiples of 2^-1032, where a
/// double still has places to spare, and far from the largest double. Infinity and NaN would become numbers,
/// so the largest magnitude is watched.
template <class Layout>
struct ShortFormat {
  static constexpr int kMantissaBits = Layout::kMantissaBits;
  static constexpr int kPlaces = 52 - kMantissaBits;
  static constexpr std::int64_t kKept = INT64_MIN | std::int64_t{0x7fff} << kPlaces;
  static constexpr std::int16_t kInfinity = 0x7fff & ~((1 << kMantissaBits) - 1);
  static constexpr double kUnscale =
      mezzo::detail::bit_cast<double>(std::int64_t{1023 + 1023 - Layout::kBias} << 52);
  MEZZO_INLINE_V4 __m512d eight_v4(const std::int16_t* x) {
    const __m512i extended =
        _mm512_maskz_cvtepi16_epi64(0xFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
    return _mm512_castsi512_pd(
        _mm512_and_si512(_mm512_maskz_slli_epi64(0xFF, extended, kPlaces), _mm512_set1_epi64(kKept)));
  }
  MEZZO_INLINE_V4 void watch_v4(const std::int16_t* group, __m512i& largest) {
    const __m512i magnitudes = _mm512_and_si512(_mm512_loadu_si512(group), _mm512_set1_epi16(0x7fff));
    largest = _mm512_max_epi16(largest, magnitudes);
  }
  MEZZO_INLINE_V4 bool finite_v4(__m512i largest) {
    return _mm512_cmpge_epi16_mask(largest, _mm512_set1_epi16(kInfinity)) == 0;
  }
};

constexpr int kSumLanes = Sum<>::kLanes;
static_assert(kSumLanes == 32, "sum_tile_v4 has four accumulators of eight lanes");

/// The scaled sum of n <= kTile elements as RowTile makes it.
template <class Format>
[[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline double sum_tile_v4(const std::int16_t* x,
                                                                                  std::int64_t n,
                                                                                  __m512i& largest) {
  __m512d a = _mm512_setzero_pd(), b = a, c = a, d = a;
  std::int16_t padded[kSumLanes];
  for (std::int64_t i = 0; i < n; i += kSumLanes) {
    const std::int16_t* group = x + i;
    __builtin_prefetch(reinterpret_cast<const char*>(group) + kPrefetchAhead);  // a group is a cache line
    if (n - i < kSumLanes) {                                                    // zeros change no lane
      std::fill_n(padded, kSumLanes, std::int16_t{0});
      std::memcpy(padded, group, static_cast<std::size_t>(n - i) * sizeof *group);
      group = padded;
    }
    Format::watch_v4(group, largest);
    a = _mm512_add_pd(a, Format::eight_v4(group));
    b = _mm512_add_pd(b, Format::eight_v4(group + 8));
    c = _mm512_add_pd(c, Format::eight_v4(group + 16));
    d = _mm512_add_pd(d, Format::eight_v4(group + 24));
  }
  const __m512d eight = _mm512_add_pd(_mm512_add_pd(a, c), _mm512_add_pd(b, d));
  const __m256d four =
      _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_maskz_extractf64x4_pd(0xF, eight, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
}

template <class Format>
[[gnu::target("avx512f,avx512bw"), gnu::noinline]] bool sum_run_v4(const std::byte* x, std::int64_t n,
                                                                   double& total) {
  const auto* stored = reinterpret_cast<const std::int16_t*>(x);
  __m512i largest = _mm512_setzero_si512();
  double sum = 0;
  for (std::int64_t done = 0; done < n; done += kTile)
    sum +=
        sum_tile_v4<Format>(stored + done, n - done < kTile ? n - done : kTile, largest) * Format::kUnscale;
  if (!Format::finite_v4(largest)) return false;
  total = sum;
  return true;
}

#undef MEZZO_INLINE_V4

}  // namespace

bool direct_sum(const std::byte* x, DType dtype, std::int64_t n, double& total) {
  if (isa() != Isa::v4) return false;
  if (dtype == DType::f16) return sum_run_v4<ShortFormat<mezzo::detail::HalfLayout>>(x, n, total);
  if (dtype == DType::bf16) return sum_run_v4<ShortFormat<mezzo::detail::BFloat16Layout>>(x, n, total);
  return false;
}

#else

bool direct_sum(const std::byte* /*x*/, DType /*dtype*/, std::int64_t /*n*/, double& /*total*/) {
  return false;
}

#endif

}  // namespace mezzo::kernels::cpu::detail
