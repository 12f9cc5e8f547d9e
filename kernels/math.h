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

#include <cmath>
#include <cstdint>

#include "mezzo/core/float16.h"
#include "mezzo/core/host_device.h"

namespace mezzo::kernels::math {

namespace detail {

using mezzo::detail::bit_cast;

inline constexpr std::int32_t kSignBit = INT32_MIN;
inline constexpr std::int32_t kMagnitudeMask = INT32_MAX;
inline constexpr std::int32_t kInfinityBits = 0x7f800000;
inline constexpr std::int32_t kNanBits = 0x7fc00000;

/// a * b + c with both roundings, on every device and whatever the contraction flags of nvcc.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float mul_add(float a, float b, float c) noexcept {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(__fmul_rn(a, b), c);
#else
  return a * b + c;
#endif
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double mul_add(double a, double b, double c) noexcept {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(__dmul_rn(a, b), c);
#else
  return a * b + c;
#endif
}

/// a * b, rounded by itself: for a product that is returned, as nvcc may fuse it with a sum of the caller's.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float multiply(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double multiply(double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

/// c0 + c1 x + c2 x^2 + ... by Horner's rule.
template <class T, class... Rest>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T polynomial(T x, T c0, Rest... rest) noexcept {
  if constexpr (sizeof...(Rest) == 0) {
    return c0;
  } else {
    return mul_add(polynomial(x, rest...), x, c0);
  }
}

/// condition ? a : b as masks. With ?: g++ moves the work behind an operand into a branch, and without
/// -fno-trapping-math the loop then no longer vectorises.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float select(bool condition, float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  return condition ? a : b;
#else
  const std::int32_t mask = -static_cast<std::int32_t>(condition);
  return bit_cast<float>((bit_cast<std::int32_t>(a) & mask) | (bit_cast<std::int32_t>(b) & ~mask));
#endif
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double select(bool condition, double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
  return condition ? a : b;
#else
  const std::int64_t mask = -static_cast<std::int64_t>(condition);
  return bit_cast<double>((bit_cast<std::int64_t>(a) & mask) | (bit_cast<std::int64_t>(b) & ~mask));
#endif
}

/// x between the two bounds; a NaN stays.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float clamp(float x, float low, float high) noexcept {
  const float at_most = select(x > high, high, x);
  return select(at_most < low, low, at_most);
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int32_t magnitude_bits(float x) noexcept {
  return bit_cast<std::int32_t>(x) & kMagnitudeMask;
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float magnitude(float x) noexcept {
  return bit_cast<float>(magnitude_bits(x));
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int32_t sign_bits(float x) noexcept {
  return bit_cast<std::int32_t>(x) & kSignBit;
}

/// `magnitude_value` (>= 0) with the sign of `sign_source`.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float with_sign(float magnitude_value,
                                                           float sign_source) noexcept {
  return bit_cast<float>(bit_cast<std::int32_t>(magnitude_value) | sign_bits(sign_source));
}

/// 2^n for n in [-126, 127]; other n give some float, as they do when a NaN is on its way through.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float power_of_two(std::int32_t n) noexcept {
  return bit_cast<float>(static_cast<std::int32_t>(static_cast<std::uint32_t>(n + 127) << 23));
}

/// ln 2 in two parts; the upper one has 12 bits, so that its product with an exponent is exact.
inline constexpr float kLn2High = 0x1.62ep-1F;
inline constexpr float kLn2Low = 0x1.0bfbe8p-15F;

/// x = n ln 2 + r with |r| <= 0.3467, for |x| < 1000.
struct ReducedByLn2 {
  float r;
  std::int32_t n;
};

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE ReducedByLn2 reduce_by_ln2(float x) noexcept {
  constexpr float kInverseLn2 = 0x1.715476p+0F;
  constexpr float kRounder = 0x1.8p+23F;  // x + kRounder has last place 1: rounds to the nearest integer
  const float rounded = mul_add(x, kInverseLn2, kRounder);
  const float n = rounded - kRounder;
  const float r = mul_add(n, -kLn2Low, mul_add(n, -kLn2High, x));
  return {r, bit_cast<std::int32_t>(rounded) - bit_cast<std::int32_t>(kRounder)};
}

/// exp(r) - 1 for |r| <= 0.3468: r + r^2 P(r).
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float expm1_near_zero(float r) noexcept {
  const float p = polynomial(r, 0x1.000000p-1F, 0x1.55552cp-3F, 0x1.555502p-5F, 0x1.1155a8p-7F,
                             0x1.6d2e4ap-10F, 0x1.3b8accp-13F);
  return mul_add(r * r, p, r);
}

/// exp(x) for |x| <= 80, where nothing can overflow or become subnormal.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float exp_in_range(float x) noexcept {
  const auto [r, n] = reduce_by_ln2(x);
  return multiply(1.0F + expm1_near_zero(r), power_of_two(n));
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
  const float p =
      polynomial(f, 0x1.555548p-2F, -0x1.000006p-2F, 0x1.99a4b6p-3F, -0x1.555c4ep-3F, 0x1.233766p-3F,
                 -0x1.fc2200p-4F, 0x1.e6f074p-4F, -0x1.de3c4ep-4F, 0x1.1457d6p-4F);
  const float cubic = mul_add(square * f, p, correction);
  const float small = mul_add(square, -0.5F, mul_add(x.k, kLn2Low, cubic));
  return mul_add(x.k, kLn2High, f + small);
}

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

/// x = quadrant * pi/2 + r with |r| <= 0.7855, for finite x >= 0 of any size; quadrant modulo 4.
struct ReducedByQuarterTurn {
  float r;
  std::int32_t quadrant;
};

/// Payne and Hanek's reduction in fixed point: mantissa times window is x / (pi/2) modulo 4 with an error
/// below 2^-60. No float comes closer to a multiple of pi/2 than 2^-30 quarter turns (all were tried), so r
/// is accurate to its last place. Radian Reduction for Trigonometric Functions, ACM SIGNUM Newsletter 18
/// (1983).
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE ReducedByQuarterTurn reduce_by_quarter_turn(float x) noexcept {
  constexpr float kNoReduction = 0.78F;
  const std::int32_t bits = bit_cast<std::int32_t>(x);
  const std::int32_t exponent = (bits >> 23) - 126;
  const std::int32_t from_zero = exponent > 0 ? exponent : 0;
  const std::int32_t entry = from_zero < 128 ? from_zero : 128;
  const TwoOverPiWindow window = two_over_pi_window(entry);
  const auto mantissa = static_cast<std::uint32_t>((bits & 0x007fffff) | 0x00800000);
  // 64 bits of the product in two words: 32-bit lanes are cheap everywhere, 64-bit ones are not.
  const std::uint32_t middle = multiply_high(mantissa, window.words[2]);
  const std::uint32_t low = mantissa * window.words[1] + middle;
  const std::uint32_t carry = low < middle ? 1 : 0;
  const std::uint32_t high = mantissa * window.words[0] + multiply_high(mantissa, window.words[1]) + carry;
  const std::uint32_t quadrant = (high + (1U << 29)) >> 30;
  const auto upper = static_cast<std::int32_t>(high - (quadrant << 30));
  const auto lower = static_cast<std::int32_t>(low >> 1);
  const double quarters = mul_add(static_cast<double>(upper), 0x1p-30, static_cast<double>(lower) * 0x1p-61);
  const auto r = static_cast<float>(quarters * 0x1.921fb54442d18p+0);
  const std::int32_t if_small = (bits - bit_cast<std::int32_t>(kNoReduction)) >> 31;
  return {select(if_small != 0, x, r), static_cast<std::int32_t>(quadrant) & ~if_small};
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
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float exp(float x) noexcept {
  using namespace detail;
  // At these bounds the result is zero or infinity already.
  const auto [r, n] = reduce_by_ln2(clamp(x, -104.0F, 89.0F));
  // Two factors, since 2^n alone can be outside the normal range; only the second product rounds.
  const std::int32_t half = n >> 1;
  return multiply((1.0F + expm1_near_zero(r)) * power_of_two(half), power_of_two(n - half));
}

/// e^x for x <= 0 or NaN, with the bits of exp(x) and for less work.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float exp_nonpositive(float x) noexcept {
  using namespace detail;
  constexpr float kLowest = -104.0F;  // the result is zero already
  const auto [r, n] = reduce_by_ln2(kLowest > x ? kLowest : x);
  // The first product is normal and exact for every n in [-150, 0]; only the second rounds.
  return multiply((1.0F + expm1_near_zero(r)) * power_of_two(n + 64), 0x1p-64F);
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
  // What the rounding of 1 + x lost, relative to u. Where no power of two is split off, f is x and nothing
  // is.
  const float lost = select(x < 1.0F, x - (u - 1.0F), 1.0F - (u - x)) / u;
  const bool is_direct = split.k == 0.0F;
  split.f = select(is_direct, x, split.f);
  const float finite = log_from_split(split, select(is_direct, 0.0F, lost));
  const float infinity = bit_cast<float>(kInfinityBits);
  const float in_domain = select(magnitude(x) < 0x1p-25F, x, select(x < infinity, finite, x));
  return select(x > -1.0F, in_domain, select(x == -1.0F, -infinity, bit_cast<float>(kNanBits)));
}

/// Hyperbolic tangent. Error at most 1.5 ulp. tanh(+-inf) = +-1, tanh(-0) = -0.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float tanh(float x) noexcept {
  using namespace detail;
  const float a = magnitude(x);
  const float z = a * a;
  const float near_zero = mul_add(
      z * a, polynomial(z, -0x1.55554ap-2F, 0x1.110ceep-3F, -0x1.b91e7ep-5F, 0x1.58e518p-6F, -0x1.9921a0p-8F),
      a);
  const float clamped = select(a > 10.0F, 10.0F, a);
  const float far = 1.0F - 2.0F / (exp_in_range(clamped + clamped) + 1.0F);
  return with_sign(select(a < 0.55F, near_zero, far), x);
}

/// 1 / (1 + e^-x), accurate in both tails. Error at most 2.5 ulp. sigmoid(-inf) = 0, sigmoid(inf) = 1.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float sigmoid(float x) noexcept {
  const float e = exp(-detail::magnitude(x));
  return detail::select(x < 0.0F, e, 1.0F) / (1.0F + e);
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
  return with_sign(select(a < 1.0F, near_zero, 1.0F - exp_in_range(-exponent)), x);
}

/// Sine of x in radians, x of any size. Error at most 1.6 ulp, 0.8 ulp for |x| < 0.78. sin(+-inf) = NaN,
/// sin(-0) = -0.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float sin(float x) noexcept {
  using namespace detail;
  const float of_magnitude = sin_in_quadrant(reduce_by_quarter_turn(magnitude(x)));
  const float value = bit_cast<float>(bit_cast<std::int32_t>(of_magnitude) ^ sign_bits(x));
  return select(magnitude_bits(x) < kInfinityBits, value, bit_cast<float>(kNanBits));
}

/// Cosine of x in radians, x of any size. Error at most 1.6 ulp, 0.8 ulp for |x| < 0.78. cos(+-inf) = NaN.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float cos(float x) noexcept {
  using namespace detail;
  ReducedByQuarterTurn reduced = reduce_by_quarter_turn(magnitude(x));
  reduced.quadrant += 1;
  return select(magnitude_bits(x) < kInfinityBits, sin_in_quadrant(reduced), bit_cast<float>(kNanBits));
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
  // What the two do not cover is put right in float: SSE2 makes no mask of 64 bits of a comparison.
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
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double exp_nonpositive(double x) noexcept { return std::exp(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double expm1(double x) noexcept { return std::expm1(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log(double x) noexcept { return std::log(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log1p(double x) noexcept { return std::log1p(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double tanh(double x) noexcept { return std::tanh(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double erf(double x) noexcept { return std::erf(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double sin(double x) noexcept { return std::sin(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double cos(double x) noexcept { return std::cos(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double sqrt(double x) noexcept { return std::sqrt(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double rsqrt(double x) noexcept { return 1.0 / std::sqrt(x); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double pow(double x, double y) noexcept { return std::pow(x, y); }
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double sigmoid(double x) noexcept {
  const double e = std::exp(-std::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

}  // namespace mezzo::kernels::math
