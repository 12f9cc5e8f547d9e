// The two 8-bit storage types of float8 training: e4m3 for values and weights, e5m2 for gradients. Separate
// from DType so that scalar kernels, file formats and tests can use them alone; the same bits on every
// processor and GPU (core/float16.h).
// Source: "FP8 Formats for Deep Learning" (arXiv:2209.05433).
#pragma once

#include "mezzo/core/float16.h"

namespace mezzo {

namespace detail {

/// The bfloat16 equal to a float8 pattern, as bits; all its values are. A NaN keeps its sign and is quiet.
/// Masks instead of conditions, which g++ 14 would not vectorise.
template <class Layout>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::uint16_t bfloat16_bits_of(
    std::uint8_t bits) noexcept {
  constexpr int kMantissa = Layout::kMantissaBits;
  constexpr std::int32_t kOne = 1 << 23, kRebias = (127 - Layout::kBias) << 23;
  const std::int32_t magnitude = bits & 0x7f;
  // In f32. A subnormal is put behind the leading one of the smallest normal number, which is then
  // subtracted.
  const std::int32_t if_subnormal = (magnitude - (1 << kMantissa)) >> 31;
  const std::int32_t with_leading_one = (magnitude << (23 - kMantissa)) + kRebias + (if_subnormal & kOne);
  const std::int32_t leading_one = if_subnormal & (kRebias + kOne);
  const float value = bit_cast<float>(with_leading_one) - bit_cast<float>(leading_one);
  std::int32_t result = bit_cast<std::int32_t>(value) >> 16;
  if constexpr (Layout::kHasInfinity) {
    constexpr std::int32_t kInfinity = 0x80 - (1 << kMantissa);
    result += ((kInfinity - 1 - magnitude) >> 31) & (kRebias >> 16);
    result |= ((kInfinity - magnitude) >> 31) & 0x40;
  } else {
    result |= ((0x7e - magnitude) >> 31) & 0x7fc0;
  }
  return static_cast<std::uint16_t>(result | (bits & 0x80) << 8);
}

/// No infinity: the largest exponent holds numbers too, but for the one pattern of NaN.
using E4M3Layout = FloatLayout<std::uint8_t, 3, 7, false>;
using E5M2Layout = FloatLayout<std::uint8_t, 2, 15>;

}  // namespace detail

/// 1 sign, 4 exponent, 3 mantissa bits, no infinity (torch.float8_e4m3fn). A finite number beyond 448 becomes
/// 448; infinity and NaN become NaN. (PyTorch gives 448 for infinity: here nothing that is not finite looks
/// finite.) The smallest normal value is 2^-6, the smallest 2^-9, epsilon 2^-3.
struct Float8E4M3 : NarrowFloat<Float8E4M3, detail::E4M3Layout> {
  using NarrowFloat::NarrowFloat;
  using Layout = detail::E4M3Layout;
  Float8E4M3() = default;
  /// The f32 equal to `bits`. Exact; a NaN keeps its sign and is quiet.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static constexpr float widened(std::uint8_t bits) noexcept {
    return detail::bit_cast<float>(std::uint32_t{detail::bfloat16_bits_of<detail::E4M3Layout>(bits)} << 16);
  }
};

/// 1 sign, 5 exponent, 2 mantissa bits (torch.float8_e5m2): the upper half of an f16. Out of range becomes
/// infinity. The largest value is 57344, the smallest normal one 2^-14, the smallest 2^-16, epsilon 2^-2.
struct Float8E5M2 : NarrowFloat<Float8E5M2, detail::E5M2Layout> {
  using NarrowFloat::NarrowFloat;
  using Layout = detail::E5M2Layout;
  Float8E5M2() = default;
  /// The f32 equal to `bits`. Exact; a NaN keeps sign and payload and becomes quiet.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static constexpr float widened(std::uint8_t bits) noexcept {
    return detail::bit_cast<float>(std::uint32_t{detail::bfloat16_bits_of<detail::E5M2Layout>(bits)} << 16);
  }
};

static_assert(sizeof(Float8E4M3) == 1 && sizeof(Float8E5M2) == 1, "8 bits of storage");

}  // namespace mezzo
