// kernels/math/math.h and elementary_math.h against the double functions of the standard library: error
// bounds over the whole range of float, special cases by the rules of C99 annex F, and equal bits for every
// instruction set the machine has.
#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/kernels/math/elementary_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include "support/sanitizer.h"

namespace mezzo::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

enum class Function {
  exp,
  expm1,
  log,
  log1p,
  tanh,
  sigmoid,
  erf,
  sin,
  cos,
  sqrt,
  rsqrt,
  log2,
  log10,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  erfinv
};

/// One function, its oracle in double and the bound its contract states.
struct Case {
  Function function;
  const char* name;
  double (*oracle)(double);
  double max_ulp;
};

const Case kCases[] = {
    {Function::exp, "exp", [](double x) { return std::exp(x); }, 1.0},
    {Function::expm1, "expm1", [](double x) { return std::expm1(x); }, 1.5},
    {Function::log, "log", [](double x) { return std::log(x); }, 1.0},
    {Function::log1p, "log1p", [](double x) { return std::log1p(x); }, 1.0},
    {Function::tanh, "tanh", [](double x) { return std::tanh(x); }, 1.5},
    {Function::sigmoid, "sigmoid", [](double x) { return 1.0 / (1.0 + std::exp(-x)); }, 2.5},
    {Function::erf, "erf", [](double x) { return std::erf(x); }, 1.5},
    {Function::sin, "sin", [](double x) { return std::sin(x); }, 1.6},
    {Function::cos, "cos", [](double x) { return std::cos(x); }, 1.6},
    {Function::sqrt, "sqrt", [](double x) { return std::sqrt(x); }, 0.5},
    {Function::rsqrt, "rsqrt", [](double x) { return 1.0 / std::sqrt(x); }, 1.5},
    {Function::log2, "log2", [](double x) { return std::log2(x); }, 0.51},
    {Function::log10, "log10", [](double x) { return std::log10(x); }, 0.51},
    {Function::tan, "tan", [](double x) { return std::tan(x); }, 3.5},
    {Function::asin, "asin", [](double x) { return std::asin(x); }, 2.5},
    {Function::acos, "acos", [](double x) { return std::acos(x); }, 2.0},
    {Function::atan, "atan", [](double x) { return std::atan(x); }, 2.0},
    {Function::sinh, "sinh", [](double x) { return std::sinh(x); }, 2.0},
    {Function::cosh, "cosh", [](double x) { return std::cosh(x); }, 2.0},
    {Function::erfinv, "erfinv", [](double x) { return math::erfinv(x); }, 3.5},
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

template <Function kFunction>
MEZZO_ALWAYS_INLINE float apply(float x) {
  if constexpr (kFunction == Function::exp) return math::exp(x);
  if constexpr (kFunction == Function::expm1) return math::expm1(x);
  if constexpr (kFunction == Function::log) return math::log(x);
  if constexpr (kFunction == Function::log1p) return math::log1p(x);
  if constexpr (kFunction == Function::tanh) return math::tanh(x);
  if constexpr (kFunction == Function::sigmoid) return math::sigmoid(x);
  if constexpr (kFunction == Function::erf) return math::erf(x);
  if constexpr (kFunction == Function::sin) return math::sin(x);
  if constexpr (kFunction == Function::cos) return math::cos(x);
  if constexpr (kFunction == Function::sqrt) return math::sqrt(x);
  if constexpr (kFunction == Function::rsqrt) return math::rsqrt(x);
  if constexpr (kFunction == Function::log2) return math::log2(x);
  if constexpr (kFunction == Function::log10) return math::log10(x);
  if constexpr (kFunction == Function::tan) return math::tan(x);
  if constexpr (kFunction == Function::asin) return math::asin(x);
  if constexpr (kFunction == Function::acos) return math::acos(x);
  if constexpr (kFunction == Function::atan) return math::atan(x);
  if constexpr (kFunction == Function::sinh) return math::sinh(x);
  if constexpr (kFunction == Function::cosh) return math::cosh(x);
  if constexpr (kFunction == Function::erfinv) return math::erfinv(x);
}

/// Calls visitor(std::integral_constant<Function, f>) for the function named at run time.
template <class Visitor>
void visit(Function function, Visitor&& visitor) {
  using F = Function;
  switch (function) {
    case F::exp:
      return visitor(std::integral_constant<F, F::exp>{});
    case F::expm1:
      return visitor(std::integral_constant<F, F::expm1>{});
    case F::log:
      return visitor(std::integral_constant<F, F::log>{});
    case F::log1p:
      return visitor(std::integral_constant<F, F::log1p>{});
    case F::tanh:
      return visitor(std::integral_constant<F, F::tanh>{});
    case F::sigmoid:
      return visitor(std::integral_constant<F, F::sigmoid>{});
    case F::erf:
      return visitor(std::integral_constant<F, F::erf>{});
    case F::sin:
      return visitor(std::integral_constant<F, F::sin>{});
    case F::cos:
      return visitor(std::integral_constant<F, F::cos>{});
    case F::sqrt:
      return visitor(std::integral_constant<F, F::sqrt>{});
    case F::rsqrt:
      return visitor(std::integral_constant<F, F::rsqrt>{});
    case F::log2:
      return visitor(std::integral_constant<F, F::log2>{});
    case F::log10:
      return visitor(std::integral_constant<F, F::log10>{});
    case F::tan:
      return visitor(std::integral_constant<F, F::tan>{});
    case F::asin:
      return visitor(std::integral_constant<F, F::asin>{});
    case F::acos:
      return visitor(std::integral_constant<F, F::acos>{});
    case F::atan:
      return visitor(std::integral_constant<F, F::atan>{});
    case F::sinh:
      return visitor(std::integral_constant<F, F::sinh>{});
    case F::cosh:
      return visitor(std::integral_constant<F, F::cosh>{});
    case F::erfinv:
      return visitor(std::integral_constant<F, F::erfinv>{});
  }
}

float evaluate(Function function, float x) {
  float result = 0;
  visit(function, [&](auto f) { result = apply<decltype(f)::value>(x); });
  return result;
}

/// |got - want| in units of the last place of the float nearest `want`. Infinity counts as 2^128, the value
/// that rounding to infinity stands for, so that results on both sides of the overflow threshold compare like
/// any others.
double error_in_ulp(float got, double want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0.0 : HUGE_VAL;
  const double bounded = std::fmin(std::fmax(want, -0x1p128), 0x1p128);
  const double value = std::fmin(std::fmax(static_cast<double>(got), -0x1p128), 0x1p128);
  int exponent = 0;
  std::frexp(bounded, &exponent);
  const int last_place = bounded == 0.0 ? -149 : std::min(std::max(exponent - 24, -149), 104);
  return std::fabs(value - bounded) * std::ldexp(1.0, -last_place);
}

std::string hex(float x) {
  char text[64];
  std::snprintf(text, sizeof text, "%a", static_cast<double>(x));
  return text;
}

/// Prime: every exponent with changing mantissas, both signs, NaNs included. Instrumented code, whose results
/// are those of builds that are not, looks at fewer.
std::uint64_t stride_over_all_floats() { return mezzo::test::under_sanitizer() ? 4001 : 499; }

class MathFunctionTest : public ::testing::TestWithParam<Case> {};

TEST_P(MathFunctionTest, StaysWithinItsBoundOverAllFloats) {
  const Case& c = GetParam();
  const std::uint64_t stride = stride_over_all_floats();
  double worst = 0;
  float worst_at = 0;
  visit(c.function, [&](auto f) {
    for (std::uint64_t pattern = 0; pattern < (std::uint64_t{1} << 32); pattern += stride) {
      const auto x = math::detail::bit_cast<float>(static_cast<std::uint32_t>(pattern));
      const double error = error_in_ulp(apply<decltype(f)::value>(x), c.oracle(static_cast<double>(x)));
      if (error > worst) {
        worst = error;
        worst_at = x;
      }
    }
  });
  EXPECT_LE(worst, c.max_ulp) << c.name << " at " << hex(worst_at);
  RecordProperty("max_ulp", std::to_string(worst));
}

TEST_P(MathFunctionTest, IsExactInSignAndKindAtTheEdges) {
  const Case& c = GetParam();
  const float max = std::numeric_limits<float>::max();
  const float denormal = std::numeric_limits<float>::denorm_min();
  const float normal = std::numeric_limits<float>::min();
  for (const float x : {0.0F, -0.0F, 1.0F, -1.0F, kInf, -kInf, kNan, -kNan, max, -max, denormal, -denormal,
                        normal, -normal}) {
    const float got = evaluate(c.function, x);
    const auto want = static_cast<float>(c.oracle(static_cast<double>(x)));
    EXPECT_EQ(std::isnan(got), std::isnan(want)) << c.name << "(" << hex(x) << ") = " << hex(got);
    if (std::isnan(want)) continue;
    EXPECT_EQ(std::signbit(got), std::signbit(want)) << c.name << "(" << hex(x) << ") = " << hex(got);
    EXPECT_EQ(std::isinf(got), std::isinf(want)) << c.name << "(" << hex(x) << ") = " << hex(got);
    EXPECT_EQ(got == 0.0F, want == 0.0F) << c.name << "(" << hex(x) << ") = " << hex(got);
  }
}

INSTANTIATE_TEST_SUITE_P(All, MathFunctionTest, ::testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(MathTest, ExpOverflowsAndUnderflowsWhereTheExactValueDoes) {
  EXPECT_TRUE(std::isfinite(math::exp(0x1.62e42ep+6F)));  // largest x with exp(x) < 2^128
  EXPECT_EQ(math::exp(0x1.62e430p+6F), kInf);
  EXPECT_EQ(math::exp(-0x1.9fe368p+6F), 0x1p-149F);  // smallest x with exp(x) > 2^-150
  EXPECT_EQ(math::exp(-0x1.9fe36ap+6F), 0.0F);
  EXPECT_EQ(math::exp(0.0F), 1.0F);
}

TEST(MathTest, ExpOfNonpositiveArgumentsHasTheBitsOfExp) {
  const auto bits = [](float x) { return math::detail::bit_cast<std::uint32_t>(x); };
  const std::uint64_t stride = mezzo::test::under_sanitizer() ? 499 : 61;
  for (std::uint64_t pattern = bits(-0.0F); pattern <= bits(-kInf); pattern += stride) {
    const auto x = math::detail::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    ASSERT_EQ(bits(math::exp_nonpositive(x)), bits(math::exp(x))) << hex(x);
  }
  for (const float x : {0.0F, -0.0F, -kInf, -0x1.9fe368p+6F, -0x1.9fe36ap+6F, -104.0F})
    EXPECT_EQ(bits(math::exp_nonpositive(x)), bits(math::exp(x))) << hex(x);
  EXPECT_TRUE(std::isnan(math::exp_nonpositive(kNan)));
}

TEST(MathTest, SineAndCosineAreMoreAccurateWhereNoReductionIsNeeded) {
  double worst = 0;
  for (std::uint32_t pattern = 0x38000000U; pattern < 0x3f47ae14U; pattern += 61) {  // 3e-5 to 0.78
    const auto x = math::detail::bit_cast<float>(pattern);
    worst = std::max(worst, error_in_ulp(math::sin(x), std::sin(static_cast<double>(x))));
    worst = std::max(worst, error_in_ulp(math::cos(x), std::cos(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 0.8);
}

TEST(MathTest, NormalStaysWithinItsBoundsOverAllFloats) {
  const std::uint64_t stride = stride_over_all_floats();
  constexpr double kSmallest = 0x1p-149;  // a rounding of subnormals
  for (std::uint64_t pattern = 0; pattern < (std::uint64_t{1} << 32); pattern += stride) {
    const auto x = math::detail::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    const auto [cdf, bell] = scalar::normal(x);
    const auto exact = static_cast<double>(x);
    if (std::isnan(x)) {
      ASSERT_TRUE(cdf == 1 && bell < 1e-40F) << "x times them is NaN";
      continue;
    }
    const double want_cdf = 0.5 * std::erfc(-exact / std::sqrt(2.0)),
                 want_bell = std::exp(-0.5 * exact * exact);
    ASSERT_NEAR(cdf, want_cdf, 5e-7 * want_cdf + kSmallest) << hex(x);
    ASSERT_NEAR(bell, want_bell, 2e-7 * want_bell + kSmallest) << hex(x);
    ASSERT_TRUE(cdf >= 0 && cdf <= 1) << hex(x);
  }
  EXPECT_EQ(scalar::normal(-15.0F).cdf, 0.0F);
  EXPECT_EQ(scalar::normal(6.0F).cdf, 1.0F);
  EXPECT_EQ(scalar::normal(0.0F).cdf, 0.5F);
  EXPECT_EQ(scalar::normal(0.0F).bell, 1.0F);
}

TEST(MathTest, SigmoidAndTanhSaturateAndAreSymmetric) {
  EXPECT_EQ(math::sigmoid(20.0F), 1.0F);
  EXPECT_GT(math::sigmoid(-103.0F), 0.0F);  // subnormal, not flushed
  EXPECT_EQ(math::sigmoid(0.0F), 0.5F);
  for (float x = 0.01F; x < 12.0F; x *= 1.1F) EXPECT_EQ(math::tanh(-x), -math::tanh(x));
  EXPECT_EQ(math::tanh(9.5F), 1.0F);
}

// Every pair of these bases and exponents: zeros, ones, infinities, NaN, odd and even integers up to the
// largest, fractions.
TEST(PowTest, FollowsTheSpecialCasesOfC99) {
  const float values[] = {
      0.0F,  -0.0F,  1.0F,    -1.0F,     2.0F,        -2.0F,        0.5F,        -0.5F,      3.0F,
      -3.0F, 1.5F,   -1.5F,   7.0F,      -7.0F,       kInf,         -kInf,       kNan,       1e-40F,
      1e38F, -1e38F, -1e-40F, 0x1p-149F, 16777215.0F, -16777215.0F, 16777216.0F, 8388609.5F, -8388607.5F,
      1e20F, -1e20F, 0.999F,  1.001F,    -0.999F,     -1.001F,      127.0F,      -149.0F,    -150.5F};
  for (const float x : values) {
    for (const float y : values) {
      const float got = math::pow(x, y);
      const double want = std::pow(static_cast<double>(x), static_cast<double>(y));
      EXPECT_LE(error_in_ulp(got, want), 0.52) << hex(x) << " ^ " << hex(y) << " = " << hex(got);
      if (!std::isnan(want)) {
        EXPECT_EQ(std::signbit(got), std::signbit(want)) << hex(x) << " ^ " << hex(y) << " = " << hex(got);
        EXPECT_EQ(std::isinf(got), std::isinf(static_cast<float>(want))) << hex(x) << " ^ " << hex(y);
      }
    }
  }
}

TEST(PowTest, StaysWithinItsBoundOverTheWholeRange) {
  std::uint64_t state = 88172645463325252U;  // xorshift: an independent, fixed stream of bits
  const auto next = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  };
  double worst = 0;
  float worst_x = 0, worst_y = 0;
  for (int i = 0; i < 3000000; ++i) {
    const auto x = math::detail::bit_cast<float>(static_cast<std::uint32_t>(next()) & 0x7fffffffU);
    // An exponent that spreads the results evenly over all binades, overflow and underflow included.
    const double spread = static_cast<double>(static_cast<std::int64_t>(next())) * 0x1p-63 * 155.0;
    const auto y = static_cast<float>(spread / std::log2(static_cast<double>(x)));
    const double error =
        error_in_ulp(math::pow(x, y), std::pow(static_cast<double>(x), static_cast<double>(y)));
    if (error > worst) {
      worst = error;
      worst_x = x;
      worst_y = y;
    }
  }
  EXPECT_LE(worst, 0.52) << hex(worst_x) << " ^ " << hex(worst_y);
  RecordProperty("max_ulp", std::to_string(worst));
}

TEST(PowTest, IsExactWhereFloatHoldsTheResult) {
  for (int base = -255; base <= 255; ++base) {
    const auto x = static_cast<float>(base);
    EXPECT_EQ(math::pow(x, 1.0F), x);
    EXPECT_EQ(math::pow(x, 2.0F), x * x);
    EXPECT_EQ(math::pow(x, 3.0F), x * x * x);
    EXPECT_EQ(math::pow(x * x, 0.5F), std::fabs(x));
  }
  for (int n = -149; n <= 127; ++n) EXPECT_EQ(math::pow(2.0F, static_cast<float>(n)), std::ldexp(1.0F, n));
}

TEST(MathTest, Atan2FollowsC99AndItsBound) {
  const float values[] = {0.0F, -0.0F, 1.0F, -1.0F, kInf, -kInf, kNan, 3e38F, -3e38F, 1e-40F, -1e-40F, 0.7F};
  for (const float y : values) {
    for (const float x : values) {
      const float got = math::atan2(y, x);
      const double want = std::atan2(static_cast<double>(y), static_cast<double>(x));
      EXPECT_LE(error_in_ulp(got, want), 2.0) << hex(y) << ", " << hex(x);
      EXPECT_TRUE(std::isnan(want) || std::signbit(got) == std::signbit(want)) << hex(y) << ", " << hex(x);
    }
  }
  for (std::uint32_t i = 0; i < 1000000; ++i) {
    const auto y = math::detail::bit_cast<float>(i * 4289U);
    const float x = y * (static_cast<float>(i % 2001) - 1000.0F) / 500.0F;
    const double want = std::atan2(static_cast<double>(y), static_cast<double>(x));
    ASSERT_LE(error_in_ulp(math::atan2(y, x), want), 2.0) << hex(y) << ", " << hex(x);
  }
}

TEST(MathTest, ErfinvInDoubleInvertsErfAndErfc) {
  for (const double y : {1e-300, 1e-9, 0.1, 0.4, 0.5, 1.0, 2.0})
    EXPECT_NEAR(math::erfinv(std::erf(y)) / y, 1.0, 1e-13);
  for (const double x : {0.999, 1 - 1e-9, 1 - 0x1p-53})
    EXPECT_NEAR(std::erfc(math::erfinv(x)) / (1 - x), 1.0, 1e-13);
}

TEST(MathTest, DoubleFormsAreThoseOfTheStandardLibrary) {
  for (const double x : {0.3, 1.0, 2.75}) {
    EXPECT_EQ(math::exp(x), std::exp(x));
    EXPECT_EQ(math::expm1(x), std::expm1(x));
    EXPECT_EQ(math::log(x), std::log(x));
    EXPECT_EQ(math::log1p(x), std::log1p(x));
    EXPECT_EQ(math::tanh(x), std::tanh(x));
    EXPECT_EQ(math::erf(x), std::erf(x));
    EXPECT_EQ(math::sin(x), std::sin(x));
    EXPECT_EQ(math::cos(x), std::cos(x));
    EXPECT_EQ(math::sqrt(x), std::sqrt(x));
    EXPECT_EQ(math::rsqrt(x), 1.0 / std::sqrt(x));
    EXPECT_EQ(math::pow(x, 1.7), std::pow(x, 1.7));
    EXPECT_DOUBLE_EQ(math::sigmoid(x), 1.0 / (1.0 + std::exp(-x)));
    EXPECT_DOUBLE_EQ(math::sigmoid(-x), std::exp(-x) / (1.0 + std::exp(-x)));
  }
  EXPECT_GT(math::sigmoid(-740.0), 0.0);
  EXPECT_EQ(math::sigmoid(-HUGE_VAL), 0.0);
}

#if defined(__x86_64__)

// The same loop for three instruction sets. Two of them have a fused multiply-add, so this also proves that
// none is used.
template <Function kFunction>
[[gnu::noinline]] void loop_baseline(const float* in, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = apply<kFunction>(in[i]);
}

template <Function kFunction>
[[gnu::noinline, gnu::target("avx2,fma")]] void loop_avx2(const float* in, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = apply<kFunction>(in[i]);
}

template <Function kFunction>
[[gnu::noinline, gnu::target("avx512f,avx512dq,avx512bw,avx512vl,fma")]] void loop_avx512(const float* in,
                                                                                          float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = apply<kFunction>(in[i]);
}

[[gnu::noinline]] void pow_baseline(const float* x, const float* y, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = math::pow(x[i], y[i]);
}

[[gnu::noinline, gnu::target("avx2,fma")]] void pow_avx2(const float* x, const float* y, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = math::pow(x[i], y[i]);
}

[[gnu::noinline, gnu::target("avx512f,avx512dq,avx512bw,avx512vl,fma")]] void pow_avx512(const float* x,
                                                                                         const float* y,
                                                                                         float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = math::pow(x[i], y[i]);
}

[[gnu::noinline, gnu::target("fma")]] float mul_add_with_fma(float a, float b, float c) {
  return math::detail::mul_add(a, b, c);
}

[[gnu::noinline, gnu::target("fma")]] double mul_add_with_fma(double a, double b, double c) {
  return math::detail::mul_add(a, b, c);
}

TEST(MathTest, MulAddRoundsTheProductEvenWhereAFusedInstructionExists) {
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "the processor has no fused multiply-add";
  // (1 + e)^2 - (1 + 2e) is e^2 when fused and 0 when the product is rounded first. Fails without
  // -ffp-contract=off.
  volatile float a = 1.0F + 0x1p-12F, c = -(1.0F + 0x1p-11F);  // volatile: not folded at compile time
  EXPECT_EQ(mul_add_with_fma(a, a, c), 0.0F);
  volatile double b = 1.0 + 0x1p-27, d = -(1.0 + 0x1p-26);
  EXPECT_EQ(mul_add_with_fma(b, b, d), 0.0);
}

constexpr int kCount = 1 << 16;

/// `count` floats spread evenly over all bit patterns.
std::vector<float> floats_of_all_kinds(std::uint32_t offset) {
  std::vector<float> values(kCount);
  for (int i = 0; i < kCount; ++i) {
    values[i] = math::detail::bit_cast<float>(static_cast<std::uint32_t>(i) * 65521U + offset);
  }
  return values;
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& in,
                      const char* what) {
  for (int i = 0; i < kCount; ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(math::detail::bit_cast<std::uint32_t>(a[i]), math::detail::bit_cast<std::uint32_t>(b[i]))
        << what << " at " << hex(in[i]);
  }
}

TEST_P(MathFunctionTest, GivesTheSameBitsOnEveryInstructionSet) {
  const Case& c = GetParam();
  const std::vector<float> in = floats_of_all_kinds(12345);
  std::vector<float> baseline(kCount), other(kCount);
  visit(c.function, [&](auto f) {
    constexpr Function kFunction = decltype(f)::value;
    loop_baseline<kFunction>(in.data(), baseline.data(), kCount);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      loop_avx2<kFunction>(in.data(), other.data(), kCount);
      expect_same_bits(baseline, other, in, "avx2");
    }
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      loop_avx512<kFunction>(in.data(), other.data(), kCount);
      expect_same_bits(baseline, other, in, "avx512");
    }
  });
}

TEST(PowTest, GivesTheSameBitsOnEveryInstructionSet) {
  const std::vector<float> x = floats_of_all_kinds(777);
  std::vector<float> y = floats_of_all_kinds(4242);
  for (int i = 0; i < kCount; i += 2) y[i] = static_cast<float>(i % 41 - 20) * 0.25F;
  std::vector<float> baseline(kCount), other(kCount);
  pow_baseline(x.data(), y.data(), baseline.data(), kCount);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    pow_avx2(x.data(), y.data(), other.data(), kCount);
    expect_same_bits(baseline, other, x, "avx2");
  }
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    pow_avx512(x.data(), y.data(), other.data(), kCount);
    expect_same_bits(baseline, other, x, "avx512");
  }
}

#endif  // __x86_64__

}  // namespace
}  // namespace mezzo::kernels
