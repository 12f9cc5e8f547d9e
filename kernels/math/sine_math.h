// Sine and cosine, and the reduction of their argument that tangent and the normal random numbers share. Read
// kernels/math/math.h first.
#pragma once

#include "mezzo/kernels/math/float_parts.h"

namespace mezzo::kernels::math {

/// Of sine, cosine and tangent: any, or one that the caller knows to be near zero, which is less work for the
/// same bits.
enum class Argument : std::uint8_t { any, near };
/// Arguments are near where |x| is below this.
inline constexpr float kNearZero = 0x1p24F;

namespace detail {

/// Word number `index` (0 to 4) of five constants, by masks: g++ does not vectorise a look-up in a table.
template <std::uint32_t kW0, std::uint32_t kW1, std::uint32_t kW2, std::uint32_t kW3, std::uint32_t kW4>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::uint32_t word_at(std::int32_t index) noexcept {
  // All ones where index >= k.
  const auto from = [index](std::int32_t k) { return static_cast<std::uint32_t>((k - 1 - index) >> 31); };
  return kW0 ^ ((kW0 ^ kW1) & from(1)) ^ ((kW1 ^ kW2) & from(2)) ^ ((kW2 ^ kW3) & from(3)) ^
         ((kW3 ^ kW4) & from(4));
}

/// The upper word of the 64-bit product.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::uint32_t multiply_high(std::uint32_t a,
                                                                       std::uint32_t b) noexcept {
  return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 32);
}

/// 2/pi * 2^(entry - 24) modulo 4, entry in [0, 128]: 2 integer and 94 fraction bits, highest word first.
struct TwoOverPiWindow {
  std::uint32_t words[3];
};

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE TwoOverPiWindow two_over_pi_window(std::int32_t entry) noexcept {
  // 2/pi after the binary point, 32 bits a word, behind a word of zeros.
  constexpr std::uint32_t k0 = 0, k1 = 0xa2f9836e, k2 = 0x4e441529, k3 = 0xfc2757d1, k4 = 0xf534ddc0,
                          k5 = 0xdb629599, k6 = 0x3c439041, k7 = 0xfe5163ab;
  const std::int32_t first_bit = entry + 6;
  const std::int32_t index = first_bit >> 5;
  const std::int32_t bit = first_bit & 31;
  const std::uint32_t a = word_at<k0, k1, k2, k3, k4>(index);
  const std::uint32_t b = word_at<k1, k2, k3, k4, k5>(index);
  const std::uint32_t c = word_at<k2, k3, k4, k5, k6>(index);
  const std::uint32_t d = word_at<k3, k4, k5, k6, k7>(index);
  // Shifted by multiplying with 2^bit, since SSE2 shifts all lanes alike. 2^(bit - 1) is half for bit 0.
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(power_of_two(bit - 1)));
  const std::uint32_t scale = half + half + (bit == 0 ? 1U : 0U);
  const auto join = [scale](std::uint32_t high, std::uint32_t low) {
    return high * scale + multiply_high(low, scale);
  };
  return {{join(a, b), join(b, c), join(c, d)}};
}

/// x = quadrant * pi/2 + r with |r| <= 0.7855, for finite x >= 0; quadrant modulo 4.
struct ReducedByQuarterTurn {
  float r;
  std::int32_t quadrant;
};

/// For x < kNearZero: pi/2 in two doubles, the upper one of 29 bits, so that its product with a number of
/// turns is exact. r is wrong by 2^-58 at most, and no float comes closer to a multiple of pi/2 than 2^-30.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE ReducedByQuarterTurn reduce_near(float x) noexcept {
  constexpr double kRounder = 0x1.8p+52;
  const double rounded = mul_add(static_cast<double>(x), 0x1.45f306dc9c883p-1, kRounder);
  const double n = rounded - kRounder;
  const double upper = mul_add(n, -0x1.921fb54p+0, static_cast<double>(x));
  return {static_cast<float>(mul_add(n, -0x1.10b4611a62633p-30, upper)),
          static_cast<std::int32_t>(bit_cast<std::int64_t>(rounded))};
}

/// Payne and Hanek's reduction in fixed point, for x of any size from 1 on: mantissa times window is
/// x / (pi/2) modulo 4 with an error below 2^-60, so r is accurate to its last place. Radian Reduction for
/// Trigonometric Functions, ACM SIGNUM Newsletter 18 (1983).
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE ReducedByQuarterTurn reduce_far(float x) noexcept {
  const std::int32_t bits = bit_cast<std::int32_t>(x);
  const std::int32_t exponent = (bits >> 23) - 126;
  const std::int32_t from_zero = exponent > 0 ? exponent : 0;
  const std::int32_t entry = from_zero < 128 ? from_zero : 128;
  const TwoOverPiWindow window = two_over_pi_window(entry);
  const auto mantissa = static_cast<std::uint32_t>((bits & 0x007fffff) | 0x00800000);
  // 64 bits of the product in two words: 32-bit lanes are cheap everywhere, 64-bit lanes are not.
  const std::uint32_t middle = multiply_high(mantissa, window.words[2]);
  const std::uint32_t low = mantissa * window.words[1] + middle;
  const std::uint32_t carry = low < middle ? 1 : 0;
  const std::uint32_t high = mantissa * window.words[0] + multiply_high(mantissa, window.words[1]) + carry;
  const std::uint32_t quadrant = (high + (1U << 29)) >> 30;
  const auto upper = static_cast<std::int32_t>(high - (quadrant << 30));
  const auto lower = static_cast<std::int32_t>(low >> 1);
  const double quarters = mul_add(static_cast<double>(upper), 0x1p-30, static_cast<double>(lower) * 0x1p-61);
  return {static_cast<float>(quarters * 0x1.921fb54442d18p+0), static_cast<std::int32_t>(quadrant)};
}

template <Argument kArgument>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE ReducedByQuarterTurn reduce_by_quarter_turn(float x) noexcept {
  if constexpr (kArgument == Argument::near) return reduce_near(x);
  const bool is_near = x < kNearZero;
#if defined(__CUDA_ARCH__)
  return is_near ? reduce_near(x) : reduce_far(x);
#else
  const ReducedByQuarterTurn near = reduce_near(x), far = reduce_far(x);
  return {select(is_near, near.r, far.r), is_near ? near.quadrant : far.quadrant};
#endif
}

/// sin(r) for |r| <= 0.7855.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float sin_near_zero(float r) noexcept {
  const float z = r * r;
  return mul_add(z * r, polynomial(z, -0x1.555546p-3F, 0x1.110778p-7F, -0x1.9953fcp-13F), r);
}

/// cos(r) for |r| <= 0.7855: 1 - z/2 + z^2 P(z), with the rounding error of 1 - z/2 carried over.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float cos_near_zero(float r) noexcept {
  const float z = r * r;
  const float half = 0.5F * z;
  const float head = 1.0F - half;
  const float lost = (1.0F - head) - half;
  return head + mul_add(z * z, polynomial(z, 0x1.55554ap-5F, -0x1.6c0c28p-10F, 0x1.99e80cp-16F), lost);
}

/// sin(r + quadrant * pi/2) for |r| <= 0.7855.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float sin_in_quadrant(ReducedByQuarterTurn x) noexcept {
  const float value = select((x.quadrant & 1) != 0, cos_near_zero(x.r), sin_near_zero(x.r));
  return bit_cast<float>(bit_cast<std::uint32_t>(value) ^ (static_cast<std::uint32_t>(x.quadrant & 2) << 30));
}

}  // namespace detail

/// Sine of x in radians. Error at most 1.6 ulp, 0.8 ulp for |x| < 0.78. sin(+-inf) = NaN,
/// sin(-0) = -0.
template <Argument kArgument = Argument::any>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float sin(float x) noexcept {
  using namespace detail;
  const float of_magnitude = sin_in_quadrant(reduce_by_quarter_turn<kArgument>(magnitude(x)));
  const float value = bit_cast<float>(bit_cast<std::int32_t>(of_magnitude) ^ sign_bits(x));
  return select(magnitude_bits(x) < kInfinityBits, value, bit_cast<float>(kNanBits));
}

/// Cosine of x in radians. Error at most 1.6 ulp, 0.8 ulp for |x| < 0.78. cos(+-inf) = NaN.
template <Argument kArgument = Argument::any>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float cos(float x) noexcept {
  using namespace detail;
  ReducedByQuarterTurn reduced = reduce_by_quarter_turn<kArgument>(magnitude(x));
  reduced.quadrant += 1;
  return select(magnitude_bits(x) < kInfinityBits, sin_in_quadrant(reduced), bit_cast<float>(kNanBits));
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double sin(double x) noexcept { return std::sin(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double cos(double x) noexcept { return std::cos(x); }

}  // namespace mezzo::kernels::math
