// Arithmetic, comparison, choice and functions of one number: values against formulas in double, promotion,
// layouts, rounding, and what is refused. Derivatives are in pointwise_gradient_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/ops/cast.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

using Doubles = std::vector<double>;

/// Equal elements, where NaN equals NaN.
void expect_values(const Tensor& got, const Doubles& want, const std::string& what = "") {
  const Doubles values = list(got);
  ASSERT_EQ(values.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(values[i])) << what << " [" << i << "] is " << values[i];
    else
      EXPECT_EQ(values[i], want[i]) << what << " [" << i << "]";
  }
}

// --- promotion

TEST(Promotion, ArithmeticHasThePromotedDTypeForEveryPair) {
  for (const DType a : kComputeDTypes) {
    for (const DType b : kComputeDTypes) {
      const Tensor x = zeros({2}, {.dtype = a}), y = zeros({2}, {.dtype = b});
      const DType want = promote(a, b);
      EXPECT_EQ(add(x, y).dtype(), want) << to_string(a) << " " << to_string(b);
      EXPECT_EQ(mul(x, y).dtype(), want);
      EXPECT_EQ(maximum(x, y).dtype(), want);
      EXPECT_EQ(pow(x, y).dtype(), want);
      EXPECT_EQ(where(bools({2}, {1, 0}), x, y).dtype(), want);
      EXPECT_EQ(div(x, y, RoundingMode::floor).dtype(), want);
      EXPECT_EQ(div(x, y).dtype(), is_floating(want) ? want : DType::f32);
      EXPECT_EQ(lt(x, y).dtype(), DType::boolean);
      EXPECT_EQ(logical_or(x, y).dtype(), DType::boolean);
    }
  }
}

TEST(Promotion, ZeroDimTensorsAndNumbersCountByKindOnly) {
  const Tensor half = zeros({2}, {.dtype = DType::f16}), ints = zeros({2}, {.dtype = DType::i32});
  EXPECT_EQ((half * number(2.0)).dtype(), DType::f16);
  EXPECT_EQ((half + 0.1).dtype(), DType::f16);
  EXPECT_EQ((ints + number(std::int64_t{1})).dtype(), DType::i32);
  EXPECT_EQ((ints + 1).dtype(), DType::i32);
  EXPECT_EQ((ints * 0.5).dtype(), DType::f32);
  EXPECT_EQ((ints / 2).dtype(), DType::f32);
  EXPECT_EQ(pow(ints, 0.5).dtype(), DType::f32);
  EXPECT_EQ(clamp(ints, 0.5).dtype(), DType::f32);
  EXPECT_EQ(square(bools({1}, {1})).dtype(), DType::i64);
  EXPECT_EQ(where(bools({2}, {1, 0}), half, 2.5).dtype(), DType::f16);
}

TEST(Promotion, IntegersWithoutDimsWrapBeforeTheyAreOrderedOrDivide) {
  const Tensor bytes = make<double>({1.0, 200.0, 255.0}).to(DType::u8),
               three = number(std::int64_t{-3}).to(DType::i8);  // 253
  expect_values(minimum(bytes, three), {1, 200, 253});
  expect_values(maximum(three, bytes), {253, 253, 255});
  expect_values(clamp(bytes, Tensor(), three), {1, 200, 253});
  expect_values(remainder(bytes, three), {1, 200, 2});
  expect_values(div(bytes, three, RoundingMode::floor), {0, 0, 1});
  expect_values(pow(bytes, number(std::int64_t{-254}).to(DType::i16)), {1, 64, 1});  // 200^2 mod 256
  const Tensor shorts = make<double>({1.0, 5000.0}).to(DType::i16),
               many = number(std::int64_t{70000}).to(DType::i64);  // 4464
  expect_values(maximum(shorts, many), {4464, 5000});
  expect_values(fmod(shorts, many), {1, 536});
}

TEST(Promotion, LogaddexpTakesIntegersBesideRealNumbers) {
  const Tensor real = counted({2}), counts = counted({2}, DType::i64);
  for (const Tensor& y : {logaddexp(real, counts), logaddexp(counts, real)}) {
    EXPECT_EQ(y.dtype(), DType::f64);
    EXPECT_NEAR(y[0].item<double>(), std::log(2.0), 1e-15);
    EXPECT_NEAR(y[1].item<double>(), 1 + std::log(2.0), 1e-15);
  }
  EXPECT_THROW((void)logaddexp(counts, counts), DTypeError);
}

TEST(Promotion, FunctionsOfRealNumbersTurnIntegersIntoF32) {
  const Tensor x = make<std::int64_t>({1, 4});
  for (const Tensor& y : {exp(x), log(x), sqrt(x), rsqrt(x), reciprocal(x), sigmoid(x), tanh(x)})
    EXPECT_EQ(y.dtype(), DType::f32);
  expect_values(sqrt(x), {1, 2});
  expect_values(reciprocal(x), {1, 0.25});
  EXPECT_EQ(neg(x).dtype(), DType::i64);
  EXPECT_EQ(abs(x).dtype(), DType::i64);
}

// --- layouts

TEST(Layouts, OperandsBroadcast) {
  const Tensor a = make<float>({2, 1, 3}, {0, 1, 2, 3, 4, 5}), b = make<float>({2, 1}, {10, 20});
  const Tensor c = a + b;
  EXPECT_EQ(c.shape(), (Shape{2, 2, 3}));
  expect_values(c, {10, 11, 12, 20, 21, 22, 13, 14, 15, 23, 24, 25});
  expect_values(where(bools({3}, {1, 0, 1}), a, -1), {0, -1, 2, 3, -1, 5});
}

TEST(Layouts, StridesDoNotChangeValues) {
  const Tensor a = make<double>({3, 5, 2}, spread(30, -2, 2)), b = make<double>({5, 2}, spread(10, 0.5, 2));
  const Tensor sa = strided_copy(a), sb = strided_copy(b);
  ASSERT_FALSE(sa.is_contiguous());
  EXPECT_EQ(list(sa / sb), list(a / b));
  EXPECT_EQ(list(exp(sa)), list(exp(a)));
  EXPECT_EQ(list(gt(sa, sb)), list(gt(a, b)));
  EXPECT_EQ(list(clamp(sa, -0.5, 0.5)), list(clamp(a, -0.5, 0.5)));
  EXPECT_TRUE((sa + sb).is_contiguous());
}

TEST(Layouts, EmptyAndZeroDimTensorsWork) {
  const Tensor none = zeros({0, 3});
  EXPECT_EQ((none + zeros({3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(exp(none).shape(), (Shape{0, 3}));
  EXPECT_EQ(where(eq(none, 0), none, 1).shape(), (Shape{0, 3}));
  EXPECT_EQ((number(2.0F) * number(3.0F)).item(), 6);
  EXPECT_EQ((number(2.0F) * number(3.0F)).dim(), 0);
}

TEST(Layouts, LongTensorsAreComputedWhole) {
  // More than one thread's chunk, and a ragged end.
  constexpr std::int64_t kCount = 100'003;
  std::vector<float> values;
  for (std::int64_t i = 0; i < kCount; ++i) values.push_back(static_cast<float>(i % 1000));
  const std::vector<float> got = (make<float>(values) * 2 + 1).to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(got[i], values[i] * 2 + 1) << i;
}

// --- rounding

TEST(Rounding, SixteenBitResultsAreRoundedOnce) {
  std::vector<Half> a, b;
  int differs = 0;
  for (const double value : spread(500, -4, 4)) a.emplace_back(value);
  for (const double value : spread(500, -4, 4, 2)) b.emplace_back(value);
  constexpr float kAlpha = 0.3F;
  const std::vector<float> got = add(make<Half>(a), make<Half>(b), kAlpha).to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
    EXPECT_EQ(got[i], static_cast<float>(Half(x + kAlpha * y)));
    const float rounded_number = static_cast<float>(Half(kAlpha)),
                product = static_cast<float>(Half(rounded_number * y));
    differs += static_cast<float>(Half(x + product)) != got[i] ? 1 : 0;
  }
  EXPECT_GT(differs, 10) << "the test could not tell one rounding from three";
}

TEST(Rounding, NumbersAreComparedAsTheirDTypeHoldsThem) {
  const Tensor x = make<Half>({Half(0.1)});
  expect_values(eq(x, 0.1), {1});
  expect_values(lt(x, 0.1), {0});
  expect_values(eq(x, number(0.1)), {1});  // 0-dim f64: the common dtype is f16
  expect_values(eq(make<float>({0.1F}), 0.1), {1});
  expect_values(eq(make<std::uint8_t>({44}), 300), {0});  // integers are compared as they are
}

TEST(Rounding, IntegersWrap) {
  constexpr std::int32_t kMax32 = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ((make<std::int32_t>({kMax32}) + 1).item<std::int64_t>(), -2147483648LL);
  EXPECT_EQ((make<std::uint8_t>({3}) - make<std::uint8_t>({5})).item<std::int64_t>(), 254);
  const Tensor lowest = make<std::int64_t>({kMin64});
  EXPECT_EQ((lowest - 1).item<std::int64_t>(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(neg(lowest).item<std::int64_t>(), kMin64);
  EXPECT_EQ((lowest * 3).item<std::int64_t>(), kMin64);
  EXPECT_EQ(div(lowest, -1, RoundingMode::trunc).item<std::int64_t>(), kMin64);
  EXPECT_EQ(abs(lowest).item<std::int64_t>(), kMin64);
}

TEST(Rounding, LargeIntegersStayExact) {
  constexpr std::int64_t kBig = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ((make<std::int64_t>({kBig}) + 2).item<std::int64_t>(), kBig + 2);
  EXPECT_EQ(pow(make<std::int64_t>({3}), 39).item<std::int64_t>(), 4052555153018976267LL);
  expect_values(eq(make<std::int64_t>({kBig}), make<std::int64_t>({kBig - 1})), {0});
}

// --- values

TEST(Arithmetic, BoolsAddAsOrAndMultiplyAsAnd) {
  const Tensor a = bools({4}, {0, 0, 1, 1}), b = bools({4}, {0, 1, 0, 1});
  EXPECT_EQ(list(a + b), (Doubles{0, 1, 1, 1}));
  EXPECT_EQ(list(add(a, b, -1)), (Doubles{0, 1, 1, 1}));
  EXPECT_EQ(list(a * b), (Doubles{0, 0, 0, 1}));
  EXPECT_EQ((a + b).dtype(), DType::boolean);
}

TEST(Arithmetic, OperatorsTakeNumbersOnEitherSide) {
  const Tensor x = make<float>({1, 2, 4});
  expect_values(2.0 - x, {1, 0, -2});
  expect_values(x - 2.0, {-1, 0, 2});
  expect_values(1.0 / x, {1, 0.5, 0.25});
  expect_values(x / 2, {0.5, 1, 2});
  expect_values(3 + x, {4, 5, 7});
  expect_values(3 * x, {3, 6, 12});
  expect_values(-x, {-1, -2, -4});
  expect_values(sub(x, x, 3), {-2, -4, -8});
  expect_values(pow(2.0, x), {2, 4, 16});
}

TEST(Arithmetic, QuotientsRoundAsAsked) {
  const Tensor a = make<float>({7, -7, 7, -7, 1, -1}), b = make<float>({2, 2, -2, -2, 0.1F, 0.1F});
  expect_values(div(a, b, RoundingMode::trunc), {3, -3, -3, 3, 10, -10});
  // Python: 1.0 // 0.1 is 9.0 for the double 0.1, which is above a tenth; so is the float.
  expect_values(div(a, b, RoundingMode::floor), {3, -4, -4, 3, 9, -10});
  const Tensor i = make<std::int64_t>({7, -7, 7, -7, 5, 6}), j = make<std::int64_t>({2, 2, -2, -2, 0, -3});
  expect_values(div(i, j, RoundingMode::trunc), {3, -3, -3, 3, 0, -2});
  expect_values(div(i, j, RoundingMode::floor), {3, -4, -4, 3, 0, -2});
  expect_values(div(i, -2, RoundingMode::floor), {-4, 3, -4, 3, -3, -3});
  expect_values(div(make<double>({1, -1, 0, kInf}), 0.0, RoundingMode::floor), {kInf, -kInf, kNan, kInf});
}

TEST(Arithmetic, PowFollowsTheSpecialCasesOfC) {
  const Doubles bases{0.0, -0.0, 1, -1, 2, -2, 0.5, kInf, -kInf, kNan};
  const Doubles exponents{0.0, 1, -1, 2, 3, -3, 0.5, -0.5, kInf, -kInf, kNan};
  for (const double x : bases) {
    for (const double y : exponents) {
      const std::string what = std::to_string(x) + " ^ " + std::to_string(y);
      expect_values(pow(make<double>({x}), make<double>({y})), {std::pow(x, y)}, what);
      const auto fx = static_cast<float>(x), fy = static_cast<float>(y);
      const double want = std::pow(x, y);
      const float got = pow(make<float>({fx}), make<float>({fy})).item<float>();
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got)) << what;
      else
        EXPECT_FLOAT_EQ(got, static_cast<float>(want)) << what;
      // A number as exponent: PyTorch takes roots, which differ from C's powers at -0 and -infinity.
      const double power = y == 0.5 ? std::sqrt(x) : y == -0.5 ? 1 / std::sqrt(x) : std::pow(x, y);
      expect_values(pow(make<double>({x}), y), {power}, what + " (number)");
      expect_values(pow(x, make<double>({y})), {std::pow(x, y)}, what + " (base)");
    }
  }
}

TEST(Arithmetic, IntegerPowersTruncate) {
  const Tensor x = make<std::int64_t>({1, -1, 2, -2, 0}), n = make<std::int64_t>({-3, -3, -1, 3, 0});
  expect_values(pow(x, n), {1, -1, 0, -8, 1});
  expect_values(pow(x, 2), {1, 1, 4, 4, 0});
  expect_values(pow(2, make<std::int64_t>({0, 5, 10})), {1, 32, 1024});
}

TEST(Choice, NanWinsInMaximumMinimumAndClamp) {
  const Tensor a = make<double>({kNan, 1, 3, kInf}), b = make<double>({1, kNan, 2, kNan});
  expect_values(maximum(a, b), {kNan, kNan, 3, kNan});
  expect_values(minimum(a, b), {kNan, kNan, 2, kNan});
  expect_values(clamp(a, -1, 2), {kNan, 1, 2, 2});
  expect_values(clamp(a, {}, 2), {kNan, 1, 2, 2});
  expect_values(clamp(make<double>({1.0}), kNan), {kNan});
  expect_values(clamp(a, b, Tensor()), {kNan, kNan, 3, kNan});
}

TEST(Choice, ClampGivesTheUpperBoundWhereBoundsCross) {
  const Tensor x = make<float>({-3, 0, 3});
  expect_values(clamp(x, 2, -1), {-1, -1, -1});
  expect_values(clamp(x, number(-2.0F), make<float>({-2.5F, 1, 1})), {-2.5, 0, 1});
  expect_values(clamp(x, Tensor(), number(1.0F)), {-3, 0, 1});
}

TEST(Compare, AllSixOnEveryOrder) {
  const Tensor a = make<double>({1, 2, 3, kNan, kInf}), b = make<double>({2, 2, 2, 2, kInf});
  const auto both = [&](Tensor (*two)(const Tensor&, const Tensor&), Tensor (*one)(const Tensor&, Scalar),
                        const Doubles& want) {
    expect_values(two(a, b), want);
    const Doubles of_number(want.begin(), want.begin() + 4);
    expect_values(one(make<double>({1, 2, 3, kNan}), 2), of_number);
  };
  both(eq, eq, {0, 1, 0, 0, 1});
  both(ne, ne, {1, 0, 1, 1, 0});
  both(lt, lt, {1, 0, 0, 0, 0});
  both(le, le, {1, 1, 0, 0, 1});
  both(gt, gt, {0, 0, 1, 0, 0});
  both(ge, ge, {0, 1, 1, 0, 1});
}

TEST(Compare, LogicTakesAnyDTypeAndNanIsTrue) {
  const Tensor a = make<double>({0, 0, 2, kNan}), b = make<std::int32_t>({0, -1, 0, 5});
  expect_values(logical_and(a, b), {0, 0, 0, 1});
  expect_values(logical_or(a, b), {0, 1, 1, 1});
  expect_values(logical_not(a), {1, 1, 0, 0});
  expect_values(logical_not(b), {1, 0, 1, 0});
}

TEST(Unary, ValuesAgreeWithTheStandardLibrary) {
  const Doubles values = spread(200, 0.01, 9);
  std::vector<float> floats(values.begin(), values.end());
  const Tensor x = make<float>(floats);
  const auto agrees = [&](const Tensor& y, double (*f)(double), const char* name) {
    const Doubles got = list(y);
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const double want = f(static_cast<double>(floats[i]));
      EXPECT_NEAR(got[i], want, 2.5e-7 * std::abs(want)) << name << "(" << floats[i] << ")";
    }
  };
  agrees(exp(x), std::exp, "exp");
  agrees(sqrt(x), std::sqrt, "sqrt");
  agrees(
      rsqrt(x), [](double v) { return 1 / std::sqrt(v); }, "rsqrt");
  agrees(
      reciprocal(x), [](double v) { return 1 / v; }, "reciprocal");
  agrees(
      square(x), [](double v) { return v * v; }, "square");
  agrees(
      pow(x, 1.7), [](double v) { return std::pow(v, 1.7); }, "pow");
  agrees(
      log(x + 3), [](double v) { return std::log(static_cast<double>(static_cast<float>(v) + 3.0F)); },
      "log");
}

TEST(Unary, SpecialValues) {
  const Tensor x = make<float>({0.0F, -0.0F, INFINITY, -INFINITY, NAN, -4});
  expect_values(sqrt(x), {0, 0, kInf, kNan, kNan, kNan});
  expect_values(log(x), {-kInf, -kInf, kInf, kNan, kNan, kNan});
  expect_values(exp(x), {1, 1, kInf, 0, kNan, static_cast<double>(list(exp(x))[5])});
  expect_values(reciprocal(x), {kInf, -kInf, 0, 0, kNan, -0.25});
  expect_values(rsqrt(x), {kInf, -kInf, 0, kNan, kNan, kNan});
  expect_values(abs(x), {0, 0, kInf, kInf, kNan, 4});
  expect_values(sign(x), {0, 0, 1, -1, 0, -1});
}

// --- autocast

TEST(PointwiseAutocast, FunctionsThatNeedRangeRunAndReturnInF32) {
  const Tensor x = make<BFloat16>({BFloat16(0.3F), BFloat16(1.7F), BFloat16(9.0F)}), wide = x.to(DType::f32);
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  const auto same = [](const Tensor& got, const Tensor& want) {
    EXPECT_EQ(got.dtype(), DType::f32);
    EXPECT_EQ(got.to_vector<float>(), want.to_vector<float>());
  };
  same(exp(x), exp(wide));
  same(log(x), log(wide));
  same(rsqrt(x), rsqrt(wide));
  same(reciprocal(x), reciprocal(wide));
  same(pow(x, 1.5), pow(wide, 1.5));
  same(pow(x, 2), pow(wide, 2));
  same(pow(1.5, x), pow(1.5, wide));
  same(pow(x, x), pow(wide, wide));
  same(2.0 / x, 2.0 / wide);
  EXPECT_EQ((x * x).dtype(), DType::bf16);
  EXPECT_EQ(sigmoid(x).dtype(), DType::bf16);
  EXPECT_EQ(sqrt(x).dtype(), DType::bf16);
}

// --- by name, and refusals

TEST(PointwiseRegistry, AttributesHaveTorchNames) {
  const Tensor a = make<float>({5.5F, -5.5F}), b = make<float>({2, 2});
  const Tensor quotient = call_op("div", {a, b}, Value::Map{{"rounding_mode", "floor"}});
  expect_values(quotient, {2, -3});
  expect_values(call_op("add", {a, b}, Value::Map{{"alpha", 0.5}}), {6.5, -4.5});
  expect_values(call_op("pow_scalar_exp", {b}, Value::Map{{"p", 3}}), {8, 8});
  expect_values(call_op("rsub_scalar", {b}, Value::Map{{"s", 5}}), {3, 3});
  expect_values(call_op("clamp", {a}, Value::Map{{"min", nullptr}, {"max", 1}}), {1, -5.5});
}

TEST(PointwiseErrors, MessagesNameTheOpAndTheMistake) {
  const Tensor three = zeros({3}), four = zeros({4}), truth = bools({3}, {1, 0, 1});
  const Tensor ints = make<std::int64_t>({1, 2, 3});
  EXPECT_NE(message_of<ShapeError>([&] { (void)(three + four); }).find("add: expected"), std::string::npos);
  EXPECT_NE(message_of<ShapeError>([&] { (void)maximum(three, four); }).find("maximum: "), std::string::npos);
  EXPECT_NE(message_of<ShapeError>([&] { (void)ge(three, four); }).find("ge: "), std::string::npos);
  EXPECT_EQ(message_of<DTypeError>([&] { (void)add(ints, ints, 0.5); }),
            "add: expected an integer alpha for a result of i64, got a real one; convert a tensor with "
            "to(DType::f32) first");
  EXPECT_NE(message_of<DTypeError>([&] { (void)add(ints, ints, true); }).find("add: "), std::string::npos);
  EXPECT_NE(message_of<DTypeError>([&] { (void)(truth - truth); }).find("sub: "), std::string::npos);
  EXPECT_NE(message_of<DTypeError>([&] { (void)(1 - truth); }).find("rsub_scalar: "), std::string::npos);
  EXPECT_NE(message_of<DTypeError>([&] { (void)-truth; }).find("neg: "), std::string::npos);
  EXPECT_NE(message_of<DTypeError>([&] { (void)where(three, three, three); }).find("where: expected a bool"),
            std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] { (void)pow(ints, -1); }).find("pow: "), std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] { (void)clamp(three, std::nullopt); }).find("clamp: "),
            std::string::npos);
}

}  // namespace
}  // namespace mezzo
