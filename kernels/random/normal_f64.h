// Normal random numbers in double: the same transform as in random_math.h, with logarithm, sine and cosine of
// its own. The double functions of kernels/math/math.h come from each platform's library, and random numbers
// must have the same bits everywhere.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/core/random/philox.h"
#include "mezzo/kernels/math/math.h"

namespace mezzo::kernels {

namespace detail {

/// log(u) for u in [2^-1022, 1], within 3 ulp: u = 2^k m with m in [sqrt(1/2), sqrt(2)), and log(m) by the
/// series of 2 artanh(s), s = (m - 1) / (m + 1). |s| < 0.172, so twelve terms leave less than 2^-59.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log_f64(double u) noexcept {
  using math::detail::bit_cast, math::detail::mul_add, math::detail::polynomial;
  constexpr std::int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  constexpr double kLn2High = 0x1.62e42feep-1;  // 32 bits, so that its product with k is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const auto bits = bit_cast<std::int64_t>(u);
  const std::int64_t k = (bits - kSqrtHalf) >> 52;
  const double m = bit_cast<double>(bits - k * (std::int64_t{1} << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  const double series = polynomial(z, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15,
                                   2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23);
  const double log_m = mul_add(s * z, series, 2.0 * s);
  const auto exponent = static_cast<double>(static_cast<std::int32_t>(k));
  return mul_add(exponent, kLn2High, mul_add(exponent, kLn2Low, log_m));
}

/// sin(r) and cos(r) for |r| <= 0.7855 by their series, within 1 ulp.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double sin_near_zero_f64(double r) noexcept {
  using math::detail::mul_add, math::detail::polynomial;
  const double z = r * r;
  return mul_add(z * r,
                 polynomial(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                            1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000),
                 r);
}
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double cos_near_zero_f64(double r) noexcept {
  using math::detail::mul_add, math::detail::polynomial;
  const double z = r * r;
  const double half = 0.5 * z;
  const double head = 1.0 - half;
  const double lost = (1.0 - head) - half;  // what the rounding of 1 - z/2 left out
  return head + mul_add(z * z,
                        polynomial(z, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                                   -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000),
                        lost);
}

}  // namespace detail

/// Two independent standard normal values.
struct NormalPairF64 {
  double first;
  double second;
};

/// Box and Muller's transform of one Philox block:
///   u = 1 - uniform_f64(w0, w1) in (0, 1], radius = sqrt(-2 log u), angle = (w2 2^32 + w3) 2^-64 turns,
///   first = radius cos(angle), second = radius sin(angle).
/// The radius ends at 8.57. Each value is within 6 ulp of the formula. The same bits on every device.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE NormalPairF64 normal_pair_f64(PhiloxBlock block) noexcept {
  using math::detail::select;
  const double radius = math::sqrt(-2.0 * detail::log_f64(1.0 - uniform_f64(block[0], block[1])));
  // Quarter turns come off as integers, so the angle loses nothing but its rounding to double.
  const std::uint64_t angle = (std::uint64_t{block[2]} << 32) | block[3];
  const std::uint64_t quadrant = (angle + (std::uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<std::int64_t>(angle - (quadrant << 62));
  const double r = static_cast<double>(rest) * 0x1.921fb54442d18p-62;  // pi/2 * 2^-62
  const double sine = detail::sin_near_zero_f64(r), cosine = detail::cos_near_zero_f64(r);
  const bool is_odd = (quadrant & 1) != 0;
  const double x = select(is_odd, sine, cosine), y = select(is_odd, cosine, sine);
  const bool x_is_negative = ((quadrant + 1) & 2) != 0, y_is_negative = (quadrant & 2) != 0;
  return {radius * select(x_is_negative, -x, x), radius * select(y_is_negative, -y, y)};
}

}  // namespace mezzo::kernels
