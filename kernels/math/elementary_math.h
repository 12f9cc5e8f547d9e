// Elementary functions beside those of math.h, by the same rules: once for CPU loops and CUDA kernels, float
// forms of our own that vectorise, errors in ulp measured at every 31st of the 2^32 floats (atan2: by
// sampling), double forms of the standard library. A file of its own because ops take them one by one, while
// math.h is what fused kernels are made of.
#pragma once

#include "mezzo/kernels/math/math.h"

namespace mezzo::kernels::math {

namespace detail {

inline constexpr float kHalfPi = 0x1.921fb6p+0F;
inline constexpr float kHalfPiRest = -0x1.777a5cp-25F;  ///< pi/2 - kHalfPi

/// asin(t) for 0 <= t <= 1/2, z = t^2: t + t z P(z).
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float asin_near_zero(float t, float z) noexcept {
  const float p = polynomial(z, 0x1.55554cp-3F, 0x1.33387cp-4F, 0x1.6caed2p-5F, 0x1.0491a2p-5F,
                             0x1.d91fa6p-7F, 0x1.3355c0p-5F);
  return mul_add(t * z, p, t);
}

/// The common part of asin and acos: asin(a) for 0 <= a <= 1/2, above that asin(sqrt((1 - a) / 2)), half of
/// acos(a). NaN for a > 1.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float arc_of_half(float a) noexcept {
  const bool is_far = a > 0.5F;
  const float z = select(is_far, 0.5F - 0.5F * a, a * a);  // exact where is_far
  return asin_near_zero(select(is_far, math::sqrt(z), a), z);
}

/// atan(q) for 0 <= q <= 1: q + q^3 P(q^2).
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float atan_near_zero(float q) noexcept {
  const float z = q * q;
  const float p =
      polynomial(z, -0x1.55553ep-2F, 0x1.9991fep-3F, -0x1.2421b6p-3F, 0x1.c099fep-4F, -0x1.58348ep-4F,
                 0x1.dac9dcp-5F, -0x1.fed150p-6F, 0x1.65a64cp-7F, -0x1.d62fd2p-10F);
  return mul_add(z * q, p, q);
}

/// e^a / 2 for a >= 0; infinite where that is beyond the range of float, and not before.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float half_exp(float a) noexcept {
  const auto [r, n] = reduce_by_ln2(select(a > 90.0F, 90.0F, a));
  return multiply((1.0F + expm1_near_zero(r)) * power_of_two(n - 2), 2.0F);
}

/// log2(x) times `scale` with the special cases of a logarithm. Works in double.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float log2_times(float x, double scale) noexcept {
  const float infinity = bit_cast<float>(kInfinityBits);
  const auto finite = static_cast<float>(log2_in_double(static_cast<double>(x)) * scale);
  const float positive = select(x < infinity, finite, x);  // inf and NaN stay
  return select(x > 0.0F, positive, select(x == 0.0F, -infinity, bit_cast<float>(kNanBits)));
}

}  // namespace detail

/// Logarithm to base 2. Error at most 0.51 ulp. log2(0) = -inf, log2(x < 0) = NaN, log2(inf) = inf.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float log2(float x) noexcept { return detail::log2_times(x, 1.0); }

/// Logarithm to base 10. Error at most 0.51 ulp. Special cases as log2.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float log10(float x) noexcept {
  return detail::log2_times(x, 0x1.34413509f79ffp-2);
}

/// Tangent of x in radians. Error at most 3.5 ulp. tan(+-inf) = NaN, tan(-0) = -0.
template <Argument kArgument = Argument::any>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float tan(float x) noexcept {
  using namespace detail;
  const auto [r, quadrant] = reduce_by_quarter_turn<kArgument>(magnitude(x));
  const float s = sin_near_zero(r), c = cos_near_zero(r);
  const bool is_odd = (quadrant & 1) != 0;
  const float of_magnitude = select(is_odd, -c, s) / select(is_odd, s, c);
  const float value = bit_cast<float>(bit_cast<std::int32_t>(of_magnitude) ^ sign_bits(x));
  return select(magnitude_bits(x) < kInfinityBits, value, bit_cast<float>(kNanBits));
}

/// Arc sine in [-pi/2, pi/2]. Error at most 2.5 ulp. NaN for |x| > 1, asin(-0) = -0.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float asin(float x) noexcept {
  using namespace detail;
  const float a = magnitude(x), arc = arc_of_half(a);
  return with_sign(select(a > 0.5F, kHalfPi - ((arc + arc) - kHalfPiRest), arc), x);
}

/// Arc cosine in [0, pi]. Error at most 2 ulp. NaN for |x| > 1.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float acos(float x) noexcept {
  using namespace detail;
  const float a = magnitude(x), arc = arc_of_half(a);
  const float twice = arc + arc;
  const float of_far = select(x < 0.0F, 2.0F * kHalfPi - (twice - 2.0F * kHalfPiRest), twice);
  const float signed_arc = select(x < 0.0F, -arc, arc);
  return select(a > 0.5F, of_far, kHalfPi - (signed_arc - kHalfPiRest));
}

/// Arc tangent in [-pi/2, pi/2]. Error at most 2 ulp. atan(+-inf) = +-pi/2, atan(-0) = -0.
template <Argument kArgument = Argument::any>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float atan(float x) noexcept {
  using namespace detail;
  const float a = magnitude(x);
  const bool is_far = a > 1.0F;
  const float arc = atan_near_zero(select(is_far, 1.0F / a, a));
  return with_sign(select(is_far, kHalfPi - (arc - kHalfPiRest), arc), x);
}

/// Angle of the point (x, y) in [-pi, pi], with the special cases of C99 annex F: zeros and infinities give
/// multiples of pi/4, -0 counts as negative. Error at most 2 ulp.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float atan2(float y, float x) noexcept {
  using namespace detail;
  const float infinity = bit_cast<float>(kInfinityBits);
  const float a = magnitude(y), b = magnitude(x);
  const bool is_steep = a > b;
  const float low = select(is_steep, b, a), high = select(is_steep, a, b);
  const float finite = select(high == 0.0F, 0.0F, low / high);
  const float arc = atan_near_zero(select(low == infinity, 1.0F, finite));
  const float in_quadrant = select(is_steep, kHalfPi - (arc - kHalfPiRest), arc);
  const float of_left = 2.0F * kHalfPi - (in_quadrant - 2.0F * kHalfPiRest);
  const float angle = with_sign(select(sign_bits(x) != 0, of_left, in_quadrant), y);
  return select(x == x, select(y == y, angle, y), x);
}

/// Hyperbolic sine. Error at most 2 ulp. sinh(+-inf) = +-inf, sinh(-0) = -0.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float sinh(float x) noexcept {
  using namespace detail;
  const float a = magnitude(x);
  const float z = a * a;
  const float near_zero =
      mul_add(z * a, polynomial(z, 0x1.555556p-3F, 0x1.111134p-7F, 0x1.9ffe92p-13F, 0x1.7a15b6p-19F), a);
  const float half = half_exp(a);
  return with_sign(select(a < 1.0F, near_zero, half - 0.25F / half), x);
}

/// Hyperbolic cosine. Error at most 2 ulp. cosh(+-inf) = inf.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float cosh(float x) noexcept {
  const float half = detail::half_exp(detail::magnitude(x));
  return half + 0.25F / half;
}

/// The y with erf(y) = x. Error at most 3.5 ulp. erfinv(+-1) = +-inf, NaN for |x| > 1, erfinv(-0) = -0. x
/// times a function of w = -log(1 - x^2), which is nearly linear in w for small w and in sqrt(w) for large.
/// (Giles, "Approximating the erfinv function", GPU Computing Gems 2, 2010.)
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float erfinv(float x) noexcept {
  using namespace detail;
  const float a = magnitude(x);
  const float w = -math::log((1.0F - a) * (1.0F + a));
  const float of_small =
      polynomial(w - 2.5F, 0x1.805c5ep+0F, 0x1.f91e8ap-3F, -0x1.11c4ecp-8F, -0x1.486616p-10F, 0x1.c9e6c4p-13F,
                 -0x1.4d15c0p-18F, -0x1.d0c15ep-19F, 0x1.f48c82p-22F, 0x1.8f1f9ap-26F, -0x1.2e1072p-27F);
  const float of_large = polynomial(math::sqrt(w) - 3.0F, 0x1.6a9efcp+1F, 0x1.006dc8p+0F, 0x1.358424p-7F,
                                    -0x1.f4a806p-8F, 0x1.7473d4p-8F, -0x1.d62764p-9F, 0x1.88210ep-10F,
                                    -0x1.415a84p-14F, -0x1.4e33eap-12F, 0x1.0e73e6p-13F);
  const float value = multiply(select(w < 5.0F, of_small, of_large), x);
  return select(a == 1.0F, with_sign(bit_cast<float>(kInfinityBits), x), value);
}

/// The double forms: same meaning, the standard library's accuracy, not vectorised.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log2(double x) noexcept { return std::log2(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log10(double x) noexcept { return std::log10(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double tan(double x) noexcept { return std::tan(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double asin(double x) noexcept { return std::asin(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double acos(double x) noexcept { return std::acos(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double atan(double x) noexcept { return std::atan(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double atan2(double y, double x) noexcept {
  return std::atan2(y, x);
}
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double sinh(double x) noexcept { return std::sinh(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double cosh(double x) noexcept { return std::cosh(x); }

/// The standard library has none: Halley's method from a start that is right to 0.3 % (Winitzki, "A handy
/// approximation for the error function and its inverse", 2008), with erfc in the tail, where erf has no
/// digits left. Three steps reach the accuracy of erf.
[[nodiscard]] MEZZO_HD inline double erfinv(double x) noexcept {
  const double a = std::fabs(x);
  if (a == 1.0) return std::copysign(HUGE_VAL, x);
  if (!(a < 1.0)) return std::sqrt(-a);  // NaN
  constexpr double kShape = 0.147, kTwoOverPi = 0.63661977236758134308, kSlope = 1.12837916709551257390;
  const double log = std::log1p(-a * a);
  const double t = kTwoOverPi / kShape + 0.5 * log;
  const double u = -log / kShape;
  double y = std::sqrt(u / (std::sqrt(t * t + u) + t));
  for (int step = 0; step < 3; ++step) {
    const double excess = a > 0.5 ? (1.0 - a) - std::erfc(y) : std::erf(y) - a;
    const double move = excess / (kSlope * std::exp(-y * y));
    y -= move / (1.0 + move * y);
  }
  return std::copysign(y, x);
}

}  // namespace mezzo::kernels::math
