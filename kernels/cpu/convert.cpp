// One loop per pair of dtypes, compiled for every instruction set; f16 <-> f32 by the F16C, AVX-512 and ARM
// instructions, which the compilers do not find by themselves. The strided forms go through a small buffer on
// the stack.
#include "mezzo/kernels/cpu/convert.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mezzo/core/float16.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/transpose.h"
#include "mezzo/kernels/cpu/vectors_16bit.h"
#include "mezzo/kernels/math/cast_math.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels::cpu {
namespace {

template <class To, class From>
struct ConvertLoop {
  static constexpr bool kOfF32 = kIsNarrowFloat<To>;
  static void run(const From* src, To* dst, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) dst[i] = cast<To>(src[i]);
  }
};

/// Pairs without f32, in which ops compute, have the baseline only: there are many, and few casts. Float8 is
/// multiplied as bf16, and sums in f64 end as 16 bits.
template <class To, class From>
void convert_pair(const void* src, void* dst, std::int64_t n) {
  using Loop = ConvertLoop<Stored<To>, Stored<From>>;
  const auto* const in = static_cast<const Stored<From>*>(src);
  auto* const out = static_cast<Stored<To>*>(dst);
  if constexpr (std::is_same_v<To, float> || std::is_same_v<From, float> ||
                (kIsFloat8<From> && std::is_same_v<To, BFloat16>) ||
                (std::is_same_v<From, double> && kIsNarrowFloat<To>))
    run_isa<Loop>(in, out, n);
  else
    Loop::run(in, out, n);
}

#if defined(__x86_64__)
// The loops in registers. The last elements, which fill no vector, go through a vector on the stack. The
// baseline's loop gives the same bits.

[[MEZZO_TARGET_V3]] void widen_all_v3(const Half* src, float* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, widen_v3(src + i));
  if (i == n) return;
  alignas(16) Half last[8] = {};
  alignas(32) float wide[8];
  for (std::int64_t j = i; j < n; ++j) last[j - i] = src[j];
  _mm256_store_ps(wide, widen_v3(last));
  for (std::int64_t j = i; j < n; ++j) dst[j] = wide[j - i];
}

template <class Narrow>
[[MEZZO_TARGET_V3]] void narrow_all_v3(const float* src, Narrow* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) narrow_v3(_mm256_loadu_ps(src + i), dst + i);
  if (i == n) return;
  alignas(32) float last[8] = {};
  alignas(16) Narrow narrow[8];
  for (std::int64_t j = i; j < n; ++j) last[j - i] = src[j];
  narrow_v3(_mm256_load_ps(last), narrow);
  for (std::int64_t j = i; j < n; ++j) dst[j] = narrow[j - i];
}

/// A mask of the first `count` lanes, fewer than 16.
constexpr std::uint16_t first_lanes(std::int64_t count) {
  return static_cast<std::uint16_t>((1U << static_cast<unsigned>(count)) - 1U);
}

using cpu::widen_v4;
[[MEZZO_TARGET_V4, gnu::always_inline]] inline __m512 widen_v4(const BFloat16* x) {
  const __m512i words =
      _mm512_maskz_cvtepu16_epi32(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
  const __m512i bits = _mm512_maskz_slli_epi32(0xFFFF, words, 16);
  const __m512 wide = _mm512_castsi512_ps(bits);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(wide, wide, _CMP_UNORD_Q);
  return _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, is_nan, bits, _mm512_set1_epi32(0x00400000)));
}

template <class Narrow>
[[MEZZO_TARGET_V4]] void widen_all_v4(const Narrow* src, float* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(dst + i, widen_v4(src + i));
  if (i == n) return;
  alignas(32) Narrow last[16];
  _mm256_store_si256(reinterpret_cast<__m256i*>(last), _mm256_maskz_loadu_epi16(first_lanes(n - i), src + i));
  _mm512_mask_storeu_ps(dst + i, first_lanes(n - i), widen_v4(last));
}

template <class Narrow>
[[MEZZO_TARGET_V4]] void narrow_all_v4(const float* src, Narrow* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) narrow_v4(_mm512_loadu_ps(src + i), dst + i);
  if (i == n) return;
  alignas(32) Narrow last[16];
  narrow_v4(_mm512_maskz_loadu_ps(first_lanes(n - i), src + i), last);
  _mm256_mask_storeu_epi16(dst + i, first_lanes(n - i),
                           _mm256_load_si256(reinterpret_cast<const __m256i*>(last)));
}

[[MEZZO_TARGET_V4_BF16]] std::int64_t narrow_pairs_v4_bf16(const float* src, BFloat16* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    narrow_pair_v4(_mm512_loadu_ps(src + i), _mm512_loadu_ps(src + i + 16), dst + i);
  }
  return i;
}

template <>
void convert_pair<float, Half>(const void* src, void* dst, std::int64_t n) {
  const Half* const in = static_cast<const Half*>(src);
  float* const out = static_cast<float*>(dst);
  switch (isa()) {
    case Isa::v4:
      return widen_all_v4(in, out, n);
    case Isa::v3:
      return widen_all_v3(in, out, n);
    case Isa::base:
      return ConvertLoop<float, Half>::run(in, out, n);
  }
}

template <>
void convert_pair<float, BFloat16>(const void* src, void* dst, std::int64_t n) {
  const BFloat16* const in = static_cast<const BFloat16*>(src);
  float* const out = static_cast<float*>(dst);
  if (isa() == Isa::v4) return widen_all_v4(in, out, n);
  run_isa<ConvertLoop<float, BFloat16>>(in, out, n);
}

template <class Narrow>
void narrow(const void* src, void* dst, std::int64_t n) {
  const float* const in = static_cast<const float*>(src);
  Narrow* const out = static_cast<Narrow*>(dst);
  std::int64_t done = 0;
  switch (isa()) {
    case Isa::v4:
      if constexpr (std::is_same_v<Narrow, BFloat16>) {
        if (has_bf16_instructions()) done = narrow_pairs_v4_bf16(in, out, n);
      }
      return narrow_all_v4(in + done, out + done, n - done);
    case Isa::v3:
      return narrow_all_v3(in, out, n);
    case Isa::base:
      return ConvertLoop<Narrow, float>::run(in, out, n);
  }
}

template <>
void convert_pair<Half, float>(const void* src, void* dst, std::int64_t n) {
  narrow<Half>(src, dst, n);
}

template <>
void convert_pair<BFloat16, float>(const void* src, void* dst, std::int64_t n) {
  narrow<BFloat16>(src, dst, n);
}
#elif defined(__aarch64__)
template <>
void convert_pair<Half, float>(const void* src, void* dst, std::int64_t n) {
  const auto* const in = static_cast<const float*>(src);
  auto* const out = static_cast<Half*>(dst);
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) narrow_arm(in + i, out + i);
  for (; i < n; ++i) out[i] = Half(in[i]);
}

[[MEZZO_TARGET_ARM_BF16]] std::int64_t narrow_eights_arm(const float* src, BFloat16* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) narrow_arm(src + i, dst + i);
  return i;
}

template <>
void convert_pair<BFloat16, float>(const void* src, void* dst, std::int64_t n) {
  const auto* const in = static_cast<const float*>(src);
  auto* const out = static_cast<BFloat16*>(dst);
  const std::int64_t done = has_bf16_instructions() ? narrow_eights_arm(in, out, n) : 0;
  ConvertLoop<BFloat16, float>::run(in + done, out + done, n - done);
}
#endif

/// Elements that the strided forms convert at a time: 4 KB of the widest dtype.
constexpr std::int64_t kStridedTile = 512;
/// Elements that are converted before they are transposed: 16 KB of the widest dtype.
constexpr std::int64_t kTransposeTile = 2048;
/// Runs below this length are not worth a call each.
constexpr std::int64_t kShortRun = 16;

/// dst[i * dst_stride] = src[i * src_stride], bit by bit; U is an integer of the element's size.
template <class U>
void copy_strided(const U* src, std::int64_t src_stride, U* dst, std::int64_t dst_stride, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
}

void copy_strided(const std::byte* src, std::int64_t src_stride, std::byte* dst, std::int64_t dst_stride,
                  std::int64_t size, std::int64_t n) {
  with_bits(size, [&]<class U>(U) {
    copy_strided(reinterpret_cast<const U*>(src), src_stride, reinterpret_cast<U*>(dst), dst_stride, n);
  });
}

/// dst[i * dst_pitch + j] = src[j * src_pitch + i] for `rows` values of i, bit by bit.
void transpose(const std::byte* src, std::int64_t src_pitch, std::byte* dst, std::int64_t dst_pitch,
               std::int64_t size, std::int64_t rows, std::int64_t cols) {
  with_bits(size, [&]<class U>(U) {
    detail::transpose(reinterpret_cast<const U*>(src), src_pitch, reinterpret_cast<U*>(dst), dst_pitch, cols,
                      rows);
  });
}

using PairFunction = void (*)(const void* src, void* dst, std::int64_t n);

/// The conversion function for two different dtypes.
PairFunction pair_function(DType from, DType to) {
  // The pairs of small products first, which are converted in as much time as the choice takes.
  if (from == DType::f32 && to == DType::f16) return convert_pair<Half, float>;
  if (from == DType::f32 && to == DType::bf16) return convert_pair<BFloat16, float>;
  if (to == DType::f32 && from == DType::f16) return convert_pair<float, Half>;
  if (to == DType::f32 && from == DType::bf16) return convert_pair<float, BFloat16>;
  PairFunction function = nullptr;
  dispatch(from, [&]<class F>(TypeTag<F>) {
    dispatch(to, [&]<class T>(TypeTag<T>) {
      if constexpr (!std::is_same_v<F, T>) function = convert_pair<T, F>;
    });
  });
  return function;
}

/// `rows` runs of `cols` elements each, which lie `src_pitch` and `dst_pitch` elements apart.
void convert_runs(const std::byte* src, DType from, std::int64_t src_pitch, std::byte* dst, DType to,
                  std::int64_t dst_pitch, std::int64_t rows, std::int64_t cols) {
  if (rows == 1 || (src_pitch == cols && dst_pitch == cols)) return convert(src, from, dst, to, rows * cols);
  const std::int64_t src_step = src_pitch * size_of(from), dst_step = dst_pitch * size_of(to);
  if (from == to) {
    const auto bytes = static_cast<std::size_t>(cols * size_of(from));
    for (std::int64_t i = 0; i < rows; ++i) std::memcpy(dst + i * dst_step, src + i * src_step, bytes);
    return;
  }
  const PairFunction function = pair_function(from, to);
  for (std::int64_t i = 0; i < rows; ++i) function(src + i * src_step, dst + i * dst_step, cols);
}

/// convert_runs for a source whose columns are runs, `src_pitch` elements apart. A tile holds all of `rows`.
void convert_columns(const std::byte* src, DType from, std::int64_t src_pitch, std::byte* dst, DType to,
                     std::int64_t rows, std::int64_t cols) {
  const std::int64_t from_size = size_of(from), to_size = size_of(to);
  if (from == to) return transpose(src, src_pitch, dst, cols, to_size, rows, cols);
  alignas(64) std::byte tile[kTransposeTile * 8];
  const std::int64_t most = kTransposeTile * 8 / (std::min(from_size, to_size) * rows);
  for (std::int64_t j = 0; j < cols; j += most) {
    const std::int64_t count = std::min(most, cols - j);
    const std::byte* const columns = src + j * src_pitch * from_size;
    std::byte* const to_columns = dst + j * to_size;
    // Narrow elements are turned over, as a register takes more of them.
    if (from_size < to_size) {
      transpose(columns, src_pitch, tile, count, from_size, rows, count);
      convert_runs(tile, from, count, to_columns, to, cols, rows, count);
    } else {
      convert_runs(columns, from, src_pitch, tile, to, rows, count, rows);
      transpose(tile, rows, to_columns, cols, to_size, rows, count);
    }
  }
}

}  // namespace

void convert(const void* src, DType from, void* dst, DType to, std::int64_t n) {
  if (n <= 0) return;
  if (from == to) {
    std::memcpy(dst, src, static_cast<std::size_t>(n * size_of(from)));
    return;
  }
  pair_function(from, to)(src, dst, n);
}

void gather_matrix(const void* src, DType from, std::int64_t row_stride, std::int64_t col_stride, void* dst,
                   DType to, std::int64_t rows, std::int64_t cols) {
  const auto* const in = static_cast<const std::byte*>(src);
  auto* const out = static_cast<std::byte*>(dst);
  if (rows <= 0 || cols <= 0) return;
  if (cols == 1) return gather(src, from, row_stride, dst, to, rows);
  if (col_stride == 1) return convert_runs(in, from, row_stride, out, to, cols, rows, cols);
  const bool runs_down = row_stride == 1 && (col_stride == rows || rows >= kShortRun);
  if (runs_down && rows <= kTransposeTile) return convert_columns(in, from, col_stride, out, to, rows, cols);
  const std::int64_t from_size = size_of(from), to_size = size_of(to);
  for (std::int64_t i = 0; i < rows; ++i)
    gather(in + i * row_stride * from_size, from, col_stride, out + i * cols * to_size, to, cols);
}

void scatter_matrix(const void* src, DType from, void* dst, DType to, std::int64_t row_stride,
                    std::int64_t col_stride, std::int64_t rows, std::int64_t cols) {
  const auto* const in = static_cast<const std::byte*>(src);
  auto* const out = static_cast<std::byte*>(dst);
  if (rows <= 0 || cols <= 0) return;
  if (cols == 1) return scatter(src, from, dst, to, row_stride, rows);
  if (col_stride == 1) return convert_runs(in, from, cols, out, to, row_stride, rows, cols);
  const std::int64_t from_size = size_of(from), to_size = size_of(to);
  for (std::int64_t i = 0; i < rows; ++i)
    scatter(in + i * cols * from_size, from, out + i * row_stride * to_size, to, col_stride, cols);
}

void gather(const void* src, DType from, std::int64_t stride, void* dst, DType to, std::int64_t n) {
  if (stride == 1) return convert(src, from, dst, to, n);
  const std::int64_t from_size = size_of(from), to_size = size_of(to);
  const std::byte* in = static_cast<const std::byte*>(src);
  std::byte* out = static_cast<std::byte*>(dst);
  if (from == to) return copy_strided(in, stride, out, 1, from_size, n);
  alignas(64) std::byte tile[kStridedTile * 8];
  for (std::int64_t i = 0; i < n; i += kStridedTile) {
    const std::int64_t count = std::min(kStridedTile, n - i);
    copy_strided(in + i * stride * from_size, stride, tile, 1, from_size, count);
    convert(tile, from, out + i * to_size, to, count);
  }
}

void scatter(const void* src, DType from, void* dst, DType to, std::int64_t stride, std::int64_t n) {
  if (stride == 1) return convert(src, from, dst, to, n);
  const std::int64_t from_size = size_of(from), to_size = size_of(to);
  const std::byte* in = static_cast<const std::byte*>(src);
  std::byte* out = static_cast<std::byte*>(dst);
  if (from == to) return copy_strided(in, 1, out, stride, from_size, n);
  alignas(64) std::byte tile[kStridedTile * 8];
  for (std::int64_t i = 0; i < n; i += kStridedTile) {
    const std::int64_t count = std::min(kStridedTile, n - i);
    convert(in + i * from_size, from, tile, to, count);
    copy_strided(tile, 1, out + i * stride * to_size, stride, to_size, count);
  }
}

}  // namespace mezzo::kernels::cpu
