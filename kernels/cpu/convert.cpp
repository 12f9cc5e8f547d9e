// One loop per pair of dtypes, compiled for every instruction set; f16 <-> f32 by the F16C and AVX-512
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
#include "mezzo/kernels/cpu/vectors_16bit.h"
#include "mezzo/kernels/math/cast_math.h"

namespace mezzo::kernels::cpu {
namespace {

template <class To, class From>
struct ConvertLoop {
  static void run(const From* src, To* dst, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) dst[i] = cast<To>(src[i]);
  }
};

/// Pairs without f32, in which ops compute, have the baseline only: there are many, and few casts.
template <class To, class From>
void convert_pair(const void* src, void* dst, std::int64_t n) {
  using Loop = ConvertLoop<Stored<To>, Stored<From>>;
  const auto* const in = static_cast<const Stored<From>*>(src);
  auto* const out = static_cast<Stored<To>*>(dst);
  if constexpr (std::is_same_v<To, float> || std::is_same_v<From, float>)
    run_isa<Loop>(in, out, n);
  else
    Loop::run(in, out, n);
}

#if defined(__x86_64__)
// The loops over full vectors. The tails below and the baseline give the same bits. Each returns how
// many elements it did.

[[MEZZO_TARGET_V3]] std::int64_t widen_all_v3(const Half* src, float* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, widen_v3(src + i));
  return i;
}

template <class Narrow>
[[MEZZO_TARGET_V3]] std::int64_t narrow_all_v3(const float* src, Narrow* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) narrow_v3(_mm256_loadu_ps(src + i), dst + i);
  return i;
}

[[MEZZO_TARGET_V4]] std::int64_t widen_all_v4(const Half* src, float* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(dst + i, widen_v4(src + i));
  return i;
}

template <class Narrow>
[[MEZZO_TARGET_V4]] std::int64_t narrow_all_v4(const float* src, Narrow* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) narrow_v4(_mm512_loadu_ps(src + i), dst + i);
  return i;
}

[[MEZZO_TARGET_V4_BF16]] std::int64_t narrow_all_v4_bf16(const float* src, BFloat16* dst, std::int64_t n) {
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
  const Isa level = isa();
  const std::int64_t done =
      level == Isa::v4 ? widen_all_v4(in, out, n) : (level == Isa::v3 ? widen_all_v3(in, out, n) : 0);
  run_isa<ConvertLoop<float, Half>>(in + done, out + done, n - done);
}

template <class Narrow>
void narrow(const void* src, void* dst, std::int64_t n) {
  const float* const in = static_cast<const float*>(src);
  Narrow* const out = static_cast<Narrow*>(dst);
  const Isa level = isa();
  std::int64_t done = 0;
  if constexpr (std::is_same_v<Narrow, BFloat16>) {
    if (has_bf16_rounding()) done = narrow_all_v4_bf16(in, out, n);
  }
  if (level == Isa::v4) done += narrow_all_v4(in + done, out + done, n - done);
  if (level == Isa::v3) done = narrow_all_v3(in, out, n);
  run_isa<ConvertLoop<Narrow, float>>(in + done, out + done, n - done);
}

template <>
void convert_pair<Half, float>(const void* src, void* dst, std::int64_t n) {
  narrow<Half>(src, dst, n);
}

template <>
void convert_pair<BFloat16, float>(const void* src, void* dst, std::int64_t n) {
  narrow<BFloat16>(src, dst, n);
}
#endif

/// Elements that the strided forms convert at a time: 4 KB of the widest dtype.
constexpr std::int64_t kStridedTile = 512;

/// dst[i * dst_stride] = src[i * src_stride], bit by bit; U is an integer of the element's size.
template <class U>
void copy_strided(const U* src, std::int64_t src_stride, U* dst, std::int64_t dst_stride, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
}

void copy_strided(const std::byte* src, std::int64_t src_stride, std::byte* dst, std::int64_t dst_stride,
                  std::int64_t size, std::int64_t n) {
  const auto copy = [&]<class U>(U) {
    copy_strided(reinterpret_cast<const U*>(src), src_stride, reinterpret_cast<U*>(dst), dst_stride, n);
  };
  switch (size) {
    case 1:
      return copy(std::uint8_t{});
    case 2:
      return copy(std::uint16_t{});
    case 4:
      return copy(std::uint32_t{});
    default:
      return copy(std::uint64_t{});
  }
}

}  // namespace

void convert(const void* src, DType from, void* dst, DType to, std::int64_t n) {
  if (n <= 0) return;
  if (from == to) {
    std::memcpy(dst, src, static_cast<std::size_t>(n * size_of(from)));
    return;
  }
  dispatch(from, [&]<class F>(TypeTag<F>) {
    dispatch(to, [&]<class T>(TypeTag<T>) {
      if constexpr (!std::is_same_v<F, T>) convert_pair<T, F>(src, dst, n);
    });
  });
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
