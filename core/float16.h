// The two 16-bit storage types, Half (IEEE binary16) and BFloat16, and their conversions. Separate from DType
// so that scalar kernels, file formats and tests can use them alone. Integers and one rounded addition give
// the same bits on every processor and GPU. On ARM (aarch64) f16 is widened by the instruction that every
// such processor has, which gives these bits too.
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

/// Binary layout of the wide formats: integer type of the same size, stored mantissa bits, exponent bias.
template <class Wide>
struct WideLayout;

template <>
struct WideLayout<float> {
  using Bits = std::int32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr int kBias = 127;
};

template <>
struct WideLayout<double> {
  using Bits = std::int64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr int kBias = 1023;
};

/// Binary layout of the 16-bit formats.
struct HalfLayout {
  static constexpr int kMantissaBits = 10;
  static constexpr int kBias = 15;
};

struct BFloat16Layout {
  static constexpr int kMantissaBits = 7;
  static constexpr int kBias = 127;
};

/// `value` rounded once, to nearest even, to the 16-bit format `Narrow`. Subnormals are kept, overflow gives
/// infinity, a NaN stays a quiet NaN of the same sign with the upper bits of its payload.
///
/// Free of branches: a choice is made only between integers that do not depend on floating-point work. g++
/// moves such work into a branch and, as it might trap there, does not vectorise the loop without
/// -fno-trapping-math.
template <class Narrow, class Wide>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::uint16_t round_to_16_bits(Wide value) noexcept {
  using Layout = WideLayout<Wide>;
  using Bits = typename Layout::Bits;
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
    return static_cast<std::uint16_t>((magnitude > kInfinity ? quiet_nan : rounded) >> kDropped);
  } else {
    // Add a power of two whose last place is the last place to keep, so that the addition itself rounds. The
    // power follows the exponent of the value but stops at the smallest normal: subnormals have one last
    // place.
    constexpr Bits kSmallestNormal = static_cast<Bits>(Layout::kBias - Narrow::kBias + 1)
                                     << Layout::kMantissaBits;
    constexpr Bits kOverflow = static_cast<Bits>(Layout::kBias + Narrow::kBias + 1) << Layout::kMantissaBits;
    const Bits finite = magnitude < kOverflow ? magnitude : kOverflow;
    const Bits exponent = finite & kInfinity;
    const Bits scale = exponent > kSmallestNormal ? exponent : kSmallestNormal;
    const Bits aligner = scale + (static_cast<Bits>(kDropped) << Layout::kMantissaBits);
    const Bits mantissa = bit_cast<Bits>(bit_cast<Wide>(finite) + bit_cast<Wide>(aligner)) - aligner;
    // The leading one of the mantissa adds the one step of the exponent that is missing here.
    const Bits result = ((scale - kSmallestNormal) >> kDropped) + mantissa;
    constexpr Bits kMantissaMask = (Bits{1} << Narrow::kMantissaBits) - 1;
    const Bits payload = ((magnitude | kQuiet) >> kDropped) & kMantissaMask;
    const Bits nan = magnitude > kInfinity ? payload : 0;  // joins the infinity that `result` is by now
    const Bits sign = (bits >> (8 * sizeof(Bits) - 16)) & 0x8000;
    return static_cast<std::uint16_t>(result | nan | sign);
  }
}

}  // namespace detail

/// The binary16 nearest to `value` (ties to even), as bits. f32 -> f16, one rounding; from 65520 on infinity.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::uint16_t half_bits_from_float(
    float value) noexcept {
  return detail::round_to_16_bits<detail::HalfLayout>(value);
}

/// f64 -> f16 in one rounding; going through f32 would round twice and can miss by one place.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::uint16_t half_bits_from_double(
    double value) noexcept {
  return detail::round_to_16_bits<detail::HalfLayout>(value);
}

/// The bfloat16 nearest to `value` (ties to even), as bits. f32 -> bf16, one rounding.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::uint16_t bfloat16_bits_from_float(
    float value) noexcept {
  return detail::round_to_16_bits<detail::BFloat16Layout>(value);
}

/// f64 -> bf16 in one rounding.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::uint16_t bfloat16_bits_from_double(
    double value) noexcept {
  return detail::round_to_16_bits<detail::BFloat16Layout>(value);
}

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

/// IEEE binary16: 1 sign, 5 exponent, 10 mantissa bits. Storage only: arithmetic happens in f32 or f64.
///
/// Conversions round to nearest even, once; out of range becomes infinity; subnormals are kept. As for float,
/// `Half x;` is uninitialised and `Half{}` is zero.
struct Half {
  std::uint16_t bits;

  Half() = default;
  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit Half(float value) noexcept
      : bits(half_bits_from_float(value)) {}
  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit Half(double value) noexcept
      : bits(half_bits_from_double(value)) {}

  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit operator float() const noexcept {
    return float_from_half_bits(bits);
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit operator double() const noexcept {
    return static_cast<double>(float_from_half_bits(bits));
  }

  /// The value with exactly these bits.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static constexpr Half from_bits(std::uint16_t pattern) noexcept {
    Half value{};
    value.bits = pattern;
    return value;
  }

  /// 65504, the largest finite value.
  [[nodiscard]] MEZZO_HD static constexpr Half max() noexcept { return from_bits(0x7bff); }
  /// -65504.
  [[nodiscard]] MEZZO_HD static constexpr Half lowest() noexcept { return from_bits(0xfbff); }
  /// 2^-14, about 6.1e-5.
  [[nodiscard]] MEZZO_HD static constexpr Half min_normal() noexcept { return from_bits(0x0400); }
  /// 2^-24, about 6.0e-8.
  [[nodiscard]] MEZZO_HD static constexpr Half min_subnormal() noexcept { return from_bits(0x0001); }
  /// 2^-10, the distance from 1 to the next value.
  [[nodiscard]] MEZZO_HD static constexpr Half epsilon() noexcept { return from_bits(0x1400); }
  [[nodiscard]] MEZZO_HD static constexpr Half infinity() noexcept { return from_bits(0x7c00); }
  [[nodiscard]] MEZZO_HD static constexpr Half quiet_nan() noexcept { return from_bits(0x7e00); }

  /// Equality of the bits, not of the numbers: a NaN equals itself and +0 differs from -0. `!=` follows.
  [[nodiscard]] MEZZO_HD friend constexpr bool operator==(Half a, Half b) noexcept {
    return a.bits == b.bits;
  }
};

/// bfloat16: 1 sign, 8 exponent, 7 mantissa bits: the upper half of an f32. Storage only, same rules as Half.
struct BFloat16 {
  std::uint16_t bits;

  BFloat16() = default;
  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit BFloat16(float value) noexcept
      : bits(bfloat16_bits_from_float(value)) {}
  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit BFloat16(double value) noexcept
      : bits(bfloat16_bits_from_double(value)) {}

  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit operator float() const noexcept {
    return float_from_bfloat16_bits(bits);
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE constexpr explicit operator double() const noexcept {
    return static_cast<double>(float_from_bfloat16_bits(bits));
  }

  /// The value with exactly these bits.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static constexpr BFloat16 from_bits(
      std::uint16_t pattern) noexcept {
    BFloat16 value{};
    value.bits = pattern;
    return value;
  }

  /// (2 - 2^-7) * 2^127, about 3.39e38, the largest finite value.
  [[nodiscard]] MEZZO_HD static constexpr BFloat16 max() noexcept { return from_bits(0x7f7f); }
  /// -max().
  [[nodiscard]] MEZZO_HD static constexpr BFloat16 lowest() noexcept { return from_bits(0xff7f); }
  /// 2^-126, about 1.2e-38.
  [[nodiscard]] MEZZO_HD static constexpr BFloat16 min_normal() noexcept { return from_bits(0x0080); }
  /// 2^-133, about 9.2e-41.
  [[nodiscard]] MEZZO_HD static constexpr BFloat16 min_subnormal() noexcept { return from_bits(0x0001); }
  /// 2^-7, the distance from 1 to the next value.
  [[nodiscard]] MEZZO_HD static constexpr BFloat16 epsilon() noexcept { return from_bits(0x3c00); }
  [[nodiscard]] MEZZO_HD static constexpr BFloat16 infinity() noexcept { return from_bits(0x7f80); }
  [[nodiscard]] MEZZO_HD static constexpr BFloat16 quiet_nan() noexcept { return from_bits(0x7fc0); }

  /// Equality of the bits, not of the numbers: a NaN equals itself and +0 differs from -0. `!=` follows.
  [[nodiscard]] MEZZO_HD friend constexpr bool operator==(BFloat16 a, BFloat16 b) noexcept {
    return a.bits == b.bits;
  }
};

static_assert(sizeof(Half) == 2 && alignof(Half) == 2, "Half is 16 bits of storage");
static_assert(sizeof(BFloat16) == 2 && alignof(BFloat16) == 2, "BFloat16 is 16 bits of storage");

}  // namespace mezzo
