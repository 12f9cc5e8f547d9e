// The transcendental functions of the library, once for CPU loops and CUDA kernels, for the compute types
// float and double. Our own forms, because calls of libm neither vectorise nor agree between devices;
// separate because every functor uses them.
//
// float: no calls, branches or tables, so a loop over an array vectorises. Every product that meets a sum is
// rounded first (mul_add), so that SSE2, AVX2, AVX-512 and CUDA give the same bits; for that a host compiler
// needs -ffp-contract=off, and nvcc must not be given --use_fast_math. Errors are in ulp of the exact result,
// subnormal results included, and were measured over all 2^32 arguments (pow: by sampling). They hold where
// the processor rounds to nearest and keeps subnormals. A NaN result is a NaN everywhere; its payload means
// nothing.
//
// double: the functions of the standard library (below 1 ulp with glibc, 2 with CUDA). Their bits may differ
// between devices; f64 is here for gradient checks and oracles.
//
// The polynomial coefficients are minimax fits (Remez exchange, then rounded) made for this file.
#pragma once

#include "mezzo/kernels/math/float_parts.h"
#include "mezzo/kernels/math/sine_math.h"

namespace mezzo::kernels::math {

namespace detail {

/// ln 2 in two parts; the upper one has 12 bits, so that its product with an exponent is exact.
inline constexpr float kLn2High = 0x1.62ep-1F;
inline constexpr float kLn2Low = 0x1.0bfbe8p-15F;

/// x = n ln 2 + r with |r| <= 0.3467, for |x| < 1000.
struct ReducedByLn2 {
  float r;
  std::int32_t n;
};

template <class Rounding = RoundedTwice>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE ReducedByLn2 reduce_by_ln2(float x) noexcept {
  constexpr float kInverseLn2 = 0x1.715476p+0F;
  constexpr float kRounder = 0x1.8p+23F;  // x + kRounder has last place 1: rounds to the nearest integer
  const float rounded = Rounding::mul_add(x, kInverseLn2, kRounder);
  const float n = rounded - kRounder;
  const float r = Rounding::mul_add(n, -kLn2Low, Rounding::mul_add(n, -kLn2High, x));
  return {r, bit_cast<std::int32_t>(rounded) - bit_cast<std::int32_t>(kRounder)};
}

/// exp(r) - 1 for |r| <= 0.3468: r + r^2 P(r).
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float expm1_near_zero(float r) noexcept {
  const float p = polynomial(r, 0x1.000000p-1F, 0x1.55552cp-3F, 0x1.555502p-5F, 0x1.1155a8p-7F,
                             0x1.6d2e4ap-10F, 0x1.3b8accp-13F);
  return mul_add(r * r, p, r);
}

/// exp(r) for |r| <= 0.3468: 1 + r + r^2 P(r) with a term less, whose error of 2^-27 the 1 hides.
template <class Rounding = RoundedTwice>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float exp_near_zero(float r) noexcept {
  const float p = polynomial<Rounding>(r, 0x1.000000p-1F, 0x1.5554b2p-3F, 0x1.5554c8p-5F, 0x1.122686p-7F,
                                       0x1.6d721ap-10F);
  return 1.0F + Rounding::mul_add(r * r, p, r);
}

/// exp(x) for |x| <= 80, where nothing can overflow or become subnormal; of NaN some number.
template <class Rounding = RoundedTwice>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float exp_in_range(float x) noexcept {
  const auto [r, n] = reduce_by_ln2<Rounding>(x);
  return scaled_by_power(exp_near_zero<Rounding>(r), n);
}

/// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for normal positive x. k is returned as float.
struct SplitForLog {
  float f;
  float k;
};

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE SplitForLog split_for_log(float x) noexcept {
  constexpr std::uint32_t kSqrtHalf = 0x3f3504f3;
  const auto bits = bit_cast<std::uint32_t>(x);
  const std::int32_t k = static_cast<std::int32_t>(bits - kSqrtHalf) >> 23;
  const float one_plus_f = bit_cast<float>(bits - (static_cast<std::uint32_t>(k) << 23));
  return {one_plus_f - 1.0F, static_cast<float>(k)};
}

/// k ln 2 + log(1 + f) + correction, with log(1 + f) = f - f^2/2 + f^3 P(f) and the small terms added first.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float log_from_split(SplitForLog x, float correction) noexcept {
  const float f = x.f;
  const float square = f * f;
  // Even and odd powers apart: two short chains of operations instead of a long one.
  const float even =
      polynomial(square, 0x1.555548p-2F, 0x1.99a4b6p-3F, 0x1.233766p-3F, 0x1.e6f074p-4F, 0x1.1457d6p-4F);
  const float odd = polynomial(square, -0x1.000006p-2F, -0x1.555c4ep-3F, -0x1.fc2200p-4F, -0x1.de3c4ep-4F);
  const float p = mul_add(odd, f, even);
  const float cubic = mul_add(square * f, p, correction);
  const float small = mul_add(square, -0.5F, mul_add(x.k, kLn2Low, cubic));
  return mul_add(x.k, kLn2High, f + small);
}

/// log2(x) in double for positive finite x of float's range (some number for others), relative error 2^-37:
/// log2(m) by the odd series in (m - 1) / (m + 1).
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log2_in_double(double x) noexcept {
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  constexpr std::uint64_t kTwoTo52 = 0x4330000000000000;
  constexpr std::uint64_t kShift = 1023;
  const auto bits = bit_cast<std::uint64_t>(x);
  // The exponent made non-negative: it is shifted without sign and converted by a bit pattern, since only
  // AVX-512 shifts signed 64-bit integers and converts them.
  const std::uint64_t biased = (bits - kSqrtHalf + (kShift << 52)) >> 52;
  const double k = bit_cast<double>(biased + kTwoTo52) - (0x1p52 + 1023.0);
  const double m = bit_cast<double>(bits - ((biased - kShift) << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  const double series = polynomial(z, 0x1.71547652bedf5p+1, 0x1.ec709d12cc064p-1, 0x1.27777feb6e8f1p-1,
                                   0x1.a58d874dfc552p-2, 0x1.5ce871a3d6005p-2);
  return mul_add(s, series, k);
}

/// 2^x in double for |x| <= 1000 (some number for others, NaN for NaN), relative error 2^-31.9.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double exp2_in_double(double x) noexcept {
  constexpr double kRounder = 0x1.8p+52;
  const double rounded = x + kRounder;
  const double r = x - (rounded - kRounder);
  const double p =
      polynomial(r, 1.0, 0x1.62e4300bab811p-1, 0x1.ebfbe0459594cp-3, 0x1.c6b0550832070p-5,
                 0x1.3b2a1bc2cf713p-7, 0x1.5dc05f85b877ap-10, 0x1.443fc924bfe38p-13, 0x1.c03fda2049e0bp-17);
  const auto biased = bit_cast<std::uint64_t>(rounded) + 1023;  // the low bits of `rounded` are the integer
  return p * bit_cast<double>(biased << 52);
}

}  // namespace detail

/// e^x. Error at most 1 ulp. exp(-inf) = 0, exp(inf) = inf.
template <class Rounding = detail::RoundedTwice>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float exp(float x) noexcept {
  using namespace detail;
  // At these bounds the result is zero or infinity already.
  const auto [r, n] = reduce_by_ln2<Rounding>(clamp(x, -104.0F, 89.0F));
  // Two factors, since 2^n alone can be outside the normal range; only the second product rounds.
  const std::int32_t half = n >> 1;
  return multiply(exp_near_zero<Rounding>(r) * power_of_two(half), power_of_two(n - half));
}

/// e^x for x <= 0 or NaN, with the bits of exp(x) and for less work.
template <class Rounding = detail::RoundedTwice>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float exp_nonpositive(float x) noexcept {
  using namespace detail;
  constexpr float kLowest = -104.0F;  // the result is zero already
  const auto [r, n] = reduce_by_ln2<Rounding>(kLowest > x ? kLowest : x);
  // The first product is normal and exact for every n in [-150, 0]; only the second rounds.
  return multiply(exp_near_zero<Rounding>(r) * power_of_two(n + 64), 0x1p-64F);
}

/// e^x for x <= 0 or NaN, as a term of sums that devices add up in orders of their own: on the CPU
/// exp_nonpositive(x); on a GPU, by its instruction for 2^x, with a relative error below 2^-21.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float exp_of_term(float x) noexcept {
#if defined(__CUDA_ARCH__)
  const auto [r, n] = detail::reduce_by_ln2(-104.0F > x ? -104.0F : x);
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(r * 0x1.715476p+0F));  // |r| <= 0.35: 2^(r log2(e))
  return detail::multiply(power * detail::power_of_two(n + 64), 0x1p-64F);    // as in exp_nonpositive
#else
  return exp_nonpositive(x);
#endif
}

/// e^x - 1, accurate near 0. Error at most 1.5 ulp. expm1(-0) = -0.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float expm1(float x) noexcept {
  using namespace detail;
  const auto [r, n] = reduce_by_ln2(clamp(x, -30.0F, 89.0F));
  // Half the result first: 2^n would overflow where the result does not.
  const float scale = power_of_two(n - 1);
  const float half = mul_add(scale, expm1_near_zero(r), scale - 0.5F);
  return select(magnitude(x) < 0x1p-25F, x, half + half);
}

/// Natural logarithm. Error at most 1 ulp. log(0) = -inf, log(x < 0) = NaN, log(inf) = inf.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float log(float x) noexcept {
  using namespace detail;
  const bool is_subnormal = x < 0x1p-126F;
  const float scaled = x * select(is_subnormal, 0x1p23F, 1.0F);
  SplitForLog split = split_for_log(scaled);
  split.k = split.k - select(is_subnormal, 23.0F, 0.0F);
  const float finite = log_from_split(split, 0.0F);
  const float infinity = bit_cast<float>(kInfinityBits);
  const float positive = select(x < infinity, finite, x);  // inf and NaN stay
  return select(x > 0.0F, positive, select(x == 0.0F, -infinity, bit_cast<float>(kNanBits)));
}

/// log(1 + x), accurate near 0. Error at most 1 ulp. log1p(-1) = -inf, log1p(x < -1) = NaN, log1p(-0) = -0.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float log1p(float x) noexcept {
  using namespace detail;
  const float u = 1.0F + x;
  SplitForLog split = split_for_log(u);
  // The rounding error of 1 + x, relative to u. Where no power of two is split off, f is x and nothing is.
  const float lost = select(x < 1.0F, x - (u - 1.0F), 1.0F - (u - x)) / u;
  const bool is_direct = split.k == 0.0F;
  split.f = select(is_direct, x, split.f);
  const float finite = log_from_split(split, select(is_direct, 0.0F, lost));
  const float infinity = bit_cast<float>(kInfinityBits);
  const float in_domain = select(magnitude(x) < 0x1p-25F, x, select(x < infinity, finite, x));
  return select(x > -1.0F, in_domain, select(x == -1.0F, -infinity, bit_cast<float>(kNanBits)));
}

/// Hyperbolic tangent. Error at most 1.5 ulp. tanh(+-inf) = +-1, tanh(-0) = -0.
template <class Rounding = detail::RoundedTwice>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float tanh(float x) noexcept {
  using namespace detail;
  const float a = magnitude(x);
  const float z = a * a;
  const float p = polynomial<Rounding>(z, -0x1.55554ap-2F, 0x1.110ceep-3F, -0x1.b91e7ep-5F, 0x1.58e518p-6F,
                                       -0x1.9921a0p-8F);
  const float near_zero = Rounding::mul_add(z * a, p, a);
  const float clamped = select(a > 10.0F, 10.0F, a);
  const float far = 1.0F - Rounding::divide(2.0F, exp_in_range<Rounding>(clamped + clamped) + 1.0F);
  return with_sign(select(a >= 0.55F, far, near_zero), x);  // of NaN near_zero's
}

/// 1 / (1 + e^-x), accurate in both tails. Error at most 2.5 ulp. sigmoid(-inf) = 0, sigmoid(inf) = 1.
template <class Rounding = detail::RoundedTwice>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float sigmoid(float x) noexcept {
  const float e = exp_nonpositive<Rounding>(-detail::magnitude(x));
  return Rounding::divide(detail::select(x < 0.0F, e, 1.0F), 1.0F + e);
}

/// Error function. Error at most 1.5 ulp. erf(+-inf) = +-1, erf(-0) = -0.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float erf(float x) noexcept {
  using namespace detail;
  const float a = magnitude(x);
  const float z = a * a;
  const float near_zero =
      mul_add(a,
              polynomial(z, 0x1.06eba8p-3F, -0x1.81273ep-2F, 0x1.ce2ce6p-4F, -0x1.b7f71ap-6F, 0x1.53f224p-8F,
                         -0x1.a3515ep-11F, 0x1.4771fep-14F),
              a);
  const float c = select(a > 4.0F, 4.0F, a);
  const float exponent = c * polynomial(c, 0x1.20f21cp+0F, 0x1.451ac0p-1F, 0x1.b45960p-4F, -0x1.896050p-6F,
                                        0x1.ec7b32p-9F, -0x1.6f9584p-12F, 0x1.d46010p-17F);
  return with_sign(select(a >= 1.0F, 1.0F - exp_in_range(-exponent), near_zero), x);  // of NaN near_zero's
}

/// Square root, correctly rounded. sqrt(x < 0) = NaN, sqrt(-0) = -0. Vectorised under -fno-math-errno.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float sqrt(float x) noexcept { return std::sqrt(x); }

/// 1 / sqrt(x). Error at most 1.5 ulp. rsqrt(0) = inf, rsqrt(-0) = -inf, rsqrt(inf) = 0, rsqrt(x < 0) = NaN.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float rsqrt(float x) noexcept { return 1.0F / std::sqrt(x); }

/// x^y with the special cases of C99 annex F: pow(x, 0) = pow(1, y) = 1 even for NaN; a negative base takes
/// only an integer exponent (else NaN); pow(+-0, y < 0) is infinite, with the sign of the base where y is an
/// odd integer. Error at most 0.52 ulp; a result that float can hold is exact. Works in double.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float pow(float x, float y) noexcept {
  using namespace detail;
  // An infinite exponent as a huge one, so that 0 times it is 0: pow(-1, inf) = 1.
  const float finite_y = select(magnitude(y) > 0x1p40F, with_sign(0x1p40F, y), y);
  const double exponent = static_cast<double>(finite_y) * log2_in_double(static_cast<double>(magnitude(x)));
  // Arguments not covered in double are put right in float: SSE2 makes no mask of 64 bits of a comparison.
  const float infinity = bit_cast<float>(kInfinityBits);
  const auto exponent_size = static_cast<float>(exponent);
  const float below = select(exponent_size > -160.0F, static_cast<float>(exp2_in_double(exponent)), 0.0F);
  const float finite = select(exponent_size < 160.0F, below, infinity);
  // |x| where that is 0 or infinite, and its inverse for a negative exponent.
  const bool is_zero_or_infinite = x + x == x;
  const float inverse = bit_cast<float>(kInfinityBits - magnitude_bits(x));
  const float size = select(is_zero_or_infinite, select(y > 0.0F, magnitude(x), inverse), finite);

  // Every float of magnitude 2^24 or more is an even integer.
  const float y_size = select(magnitude(y) < 0x1p24F, magnitude(y), 0.0F);
  const auto whole = static_cast<std::int32_t>(y_size);
  const bool is_integer = static_cast<float>(whole) == y_size;
  const float flipped_if_odd =
      bit_cast<float>(bit_cast<std::uint32_t>(size) ^ (static_cast<std::uint32_t>(whole) << 31));
  // -0 and -inf take a fraction as exponent, other negative bases do not.
  const float with_fraction = select(is_zero_or_infinite, size, bit_cast<float>(kNanBits));
  const float of_negative = select(is_integer, flipped_if_odd, with_fraction);
  const float of_numbers = select(sign_bits(x) != 0, of_negative, size);
  const float value = select(x == x, select(y == y, of_numbers, y), x);
  return select(x == 1.0F, 1.0F, select(y == 0.0F, 1.0F, value));
}

/// The double forms: same meaning, the standard library's accuracy, not vectorised.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double exp(double x) noexcept { return std::exp(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double exp_of_term(double x) noexcept { return std::exp(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double exp_nonpositive(double x) noexcept { return std::exp(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double expm1(double x) noexcept { return std::expm1(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log(double x) noexcept { return std::log(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log1p(double x) noexcept { return std::log1p(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double tanh(double x) noexcept { return std::tanh(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double erf(double x) noexcept { return std::erf(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double sqrt(double x) noexcept { return std::sqrt(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double rsqrt(double x) noexcept { return 1.0 / std::sqrt(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double pow(double x, double y) noexcept { return std::pow(x, y); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double sigmoid(double x) noexcept {
  const double e = std::exp(-std::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

}  // namespace mezzo::kernels::math
