// The two 16-bit storage types, Half (IEEE binary16) and BFloat16, and the rounding that all narrow formats
// share (core/float8.h has those of 8 bits). Separate from DType so that scalar kernels, file formats and
// tests can use them alone. Integers and one rounded addition give the same bits on every processor and GPU.
// On ARM (aarch64) f16 is widened by the instruction that every such processor has, which gives these bits
// too.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mezzo/core/host_device.h"

namespace mezzo {

namespace detail {

/// The bits of `value` read as a `To`. For nvcc std::bit_cast is a host function; the builtin behind it is
/// not.
template <class To, class From>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr To bit_cast(const From& value) noexcept {
  static_assert(sizeof(To) == sizeof(From), "bit_cast: both types must have one size");
  return __builtin_bit_cast(To, value);
}

/// Binary layout of a floating format: an integer of its size, stored mantissa bits, exponent bias. All but
/// e4m3 keep the largest exponent for infinity and NaN, as IEEE 754 does.
template <class Integer, int kMantissa, int kExponentBias, bool kInfinity = true>
struct FloatLayout {
  using Bits = Integer;
  static constexpr int kMantissaBits = kMantissa;
  static constexpr int kBias = kExponentBias;
  static constexpr bool kHasInfinity = kInfinity;
};

/// Of the wide formats, float and double.
template <class Wide>
using WideLayout = std::conditional_t<std::is_same_v<Wide, float>, FloatLayout<std::int32_t, 23, 127>,
                                      FloatLayout<std::int64_t, 52, 1023>>;
/// Of the narrow ones.
using HalfLayout = FloatLayout<std::uint16_t, 10, 15>;
using BFloat16Layout = FloatLayout<std::uint16_t, 7, 127>;

/// `value` rounded once, to nearest even, to the format `Narrow`. Subnormals are kept, overflow gives
/// infinity, a NaN stays a quiet NaN of the same sign with the upper bits of its payload. Without an
/// infinity, finite overflow gives the largest value, infinity and NaN give NaN.
///
/// Free of branches: a choice is made only between integers that do not depend on floating-point work. g++
/// moves such work into a branch and, as it might trap there, does not vectorise the loop without
/// -fno-trapping-math.
template <class Narrow, class Wide>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr typename Narrow::Bits round_to_narrow(
    Wide value) noexcept {
  using Layout = WideLayout<Wide>;
  using Bits = typename Layout::Bits;
  using NarrowBits = typename Narrow::Bits;
  constexpr int kDropped = Layout::kMantissaBits - Narrow::kMantissaBits;
  constexpr Bits kInfinity = static_cast<Bits>(2 * Layout::kBias + 1) << Layout::kMantissaBits;
  constexpr Bits kSignBit = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));

  constexpr Bits kQuiet = Bits{1} << (Layout::kMantissaBits - 1);

  const Bits bits = bit_cast<Bits>(value);
  const Bits magnitude = bits & ~kSignBit;
  if constexpr (Layout::kBias == Narrow::kBias) {
    // One exponent range: add just under half of the last place kept (one more when that place is odd, so
    // that a tie goes to even) and drop the rest. A carry out of the mantissa bumps the exponent, up to
    // infinity, and never reaches the sign.
    using Unsigned = std::make_unsigned_t<Bits>;
    const auto all = static_cast<Unsigned>(bits);
    const Unsigned rounded = all + ((Unsigned{1} << (kDropped - 1)) - 1) + ((all >> kDropped) & 1);
    const Unsigned quiet_nan = all | static_cast<Unsigned>(kQuiet);
    return static_cast<NarrowBits>((magnitude > kInfinity ? quiet_nan : rounded) >> kDropped);
  } else {
    // Add a power of two whose last place is the last place to keep, so that the addition itself rounds. The
    // power follows the exponent of the value but stops at the smallest normal: subnormals have one last
    // place.
    constexpr int kNarrowBits = 8 * sizeof(NarrowBits);
    constexpr Bits kSmallestNormal = static_cast<Bits>(Layout::kBias - Narrow::kBias + 1)
                                     << Layout::kMantissaBits;
    // From here on the result is one: infinity, or the largest value, whose mantissa has all bits but the
    // last (all of them would be NaN).
    constexpr Bits kOverflow =
        (static_cast<Bits>(Layout::kBias + Narrow::kBias + 1) << Layout::kMantissaBits) +
        (Narrow::kHasInfinity ? 0 : ((Bits{1} << Narrow::kMantissaBits) - 2) << kDropped);
    const Bits finite = magnitude < kOverflow ? magnitude : kOverflow;
    const Bits exponent = finite & kInfinity;
    const Bits scale = exponent > kSmallestNormal ? exponent : kSmallestNormal;
    const Bits aligner = scale + (static_cast<Bits>(kDropped) << Layout::kMantissaBits);
    const Bits mantissa = bit_cast<Bits>(bit_cast<Wide>(finite) + bit_cast<Wide>(aligner)) - aligner;
    // The leading one of the mantissa adds the one step of the exponent that is missing here.
    const Bits result = ((scale - kSmallestNormal) >> kDropped) + mantissa;
    constexpr Bits kMantissaMask = (Bits{1} << Narrow::kMantissaBits) - 1;
    // Joins what `result` is by now, infinity or the largest value.
    const Bits payload = Narrow::kHasInfinity ? ((magnitude | kQuiet) >> kDropped) & kMantissaMask : 1;
    const Bits nan = magnitude > kInfinity - (Narrow::kHasInfinity ? 0 : 1) ? payload : 0;
    const Bits sign = (bits >> (8 * sizeof(Bits) - kNarrowBits)) & (Bits{1} << (kNarrowBits - 1));
    return static_cast<NarrowBits>(result | nan | sign);
  }
}

}  // namespace detail

/// The f32 equal to the binary16 `bits`. Exact; a NaN keeps sign and payload and becomes quiet.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr float float_from_half_bits(std::uint16_t bits) noexcept {
#if defined(__aarch64__) && !defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) return static_cast<float>(detail::bit_cast<__fp16>(bits));
#endif
  constexpr std::int32_t kShiftedInfinity = 0x7c00 << 13;
  constexpr std::int32_t kRebias = (127 - 15) << 23;
  constexpr std::int32_t kImplicitOne = 1 << 23;
  const std::int32_t magnitude = (bits & 0x7fff) << 13;
  // A subnormal is its mantissa in units of 2^-24: put it behind the leading one of 2^-14, then subtract that
  // one.
  const std::int32_t if_subnormal = (magnitude - kImplicitOne) >> 31;  // a mask; ?: would become a branch
  const std::int32_t with_leading_one = magnitude + kRebias + (if_subnormal & kImplicitOne);
  const std::int32_t leading_one = if_subnormal & (kRebias + kImplicitOne);
  const float finite = detail::bit_cast<float>(with_leading_one) - detail::bit_cast<float>(leading_one);
  // Infinity and NaN get their exponent after the arithmetic, so that no device rewrites a payload.
  const std::int32_t to_special = magnitude >= kShiftedInfinity ? kRebias : 0;
  const std::int32_t quiet = magnitude > kShiftedInfinity ? 0x00400000 : 0;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  return detail::bit_cast<float>(
      static_cast<std::uint32_t>((detail::bit_cast<std::int32_t>(finite) + to_special) | quiet) | sign);
}

/// The f32 equal to the bfloat16 `bits`. Exact; a NaN keeps sign and payload and becomes quiet.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr float float_from_bfloat16_bits(
    std::uint16_t bits) noexcept {
  const std::uint16_t quiet = (bits & 0x7fff) > 0x7f80 ? 0x0040 : 0;
  return detail::bit_cast<float>(static_cast<std::uint32_t>(bits | quiet) << 16);
}

/// A floating format of 8 or 16 bits. Storage only: arithmetic happens in f32 or f64. Conversions to it round
/// to nearest even, once, and keep subnormals. As for float, `Half x;` is uninitialised and `Half{}` is zero.
template <class Self, class Layout>
struct NarrowFloat {
  using Bits = typename Layout::Bits;
  Bits bits;

  NarrowFloat() = default;
  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit NarrowFloat(float value) noexcept
      : bits(detail::round_to_narrow<Layout>(value)) {}
  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit NarrowFloat(double value) noexcept
      : bits(detail::round_to_narrow<Layout>(value)) {}

  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit operator float() const noexcept {
    return Self::widened(bits);
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit operator double() const noexcept {
    return static_cast<double>(Self::widened(bits));
  }

  /// The value with exactly these bits.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static constexpr Self from_bits(Bits pattern) noexcept {
    Self value{};
    value.bits = pattern;
    return value;
  }

  /// The largest finite value.
  [[nodiscard]] MEZZO_HD static constexpr Self max() noexcept { return at(kMax); }
  /// -max().
  [[nodiscard]] MEZZO_HD static constexpr Self lowest() noexcept {
    return at(kMax | 1 << (8 * sizeof(Bits) - 1));
  }
  [[nodiscard]] MEZZO_HD static constexpr Self min_normal() noexcept { return at(kExponentStep); }
  [[nodiscard]] MEZZO_HD static constexpr Self min_subnormal() noexcept { return at(1); }
  /// The distance from 1 to the next value.
  [[nodiscard]] MEZZO_HD static constexpr Self epsilon() noexcept {
    return at((Layout::kBias - Layout::kMantissaBits) * kExponentStep);
  }
  [[nodiscard]] MEZZO_HD static constexpr Self infinity() noexcept requires(Layout::kHasInfinity) {
    return at(kTopExponent);
  }
  [[nodiscard]] MEZZO_HD static constexpr Self quiet_nan() noexcept {
    return at(Layout::kHasInfinity ? kTopExponent + kExponentStep / 2 : kMax + 1);
  }

  /// Equality of the bits, not of the numbers: a NaN equals itself and +0 differs from -0. `!=` follows.
  [[nodiscard]] MEZZO_HD friend constexpr bool operator==(Self a, Self b) noexcept {
    return a.bits == b.bits;
  }

 private:
  static constexpr int kExponentStep = 1 << Layout::kMantissaBits;
  static constexpr int kTopExponent = (2 * Layout::kBias + 1) * kExponentStep;
  static constexpr int kMax = Layout::kHasInfinity ? kTopExponent - 1 : kTopExponent + kExponentStep - 2;
  [[nodiscard]] MEZZO_HD static constexpr Self at(int pattern) noexcept {
    return from_bits(static_cast<Bits>(pattern));
  }
};

/// IEEE binary16: 1 sign, 5 exponent, 10 mantissa bits. Out of range becomes infinity. The largest value is
/// 65504, the smallest normal one 2^-14, the smallest 2^-24, epsilon 2^-10.
struct Half : NarrowFloat<Half, detail::HalfLayout> {
  using NarrowFloat::NarrowFloat;
  Half() = default;
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static constexpr float widened(std::uint16_t bits) noexcept {
    return float_from_half_bits(bits);
  }
};

/// bfloat16: 1 sign, 8 exponent, 7 mantissa bits: the upper half of an f32. Out of range becomes infinity.
/// The largest value is (2 - 2^-7) * 2^127, about 3.39e38, the smallest normal one 2^-126, the smallest
/// 2^-133, epsilon 2^-7.
struct BFloat16 : NarrowFloat<BFloat16, detail::BFloat16Layout> {
  using NarrowFloat::NarrowFloat;
  BFloat16() = default;
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static constexpr float widened(std::uint16_t bits) noexcept {
    return float_from_bfloat16_bits(bits);
  }
};

static_assert(sizeof(Half) == 2 && alignof(Half) == 2, "Half is 16 bits of storage");
static_assert(sizeof(BFloat16) == 2 && alignof(BFloat16) == 2, "BFloat16 is 16 bits of storage");

}  // namespace mezzo
