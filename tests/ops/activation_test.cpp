// Activations: values against formulas in double, their derivatives to second order, and 16-bit rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/ops/cast.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double silu_of(double x) { return x * sigmoid_of(x); }
double gelu_of(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
Tensor gelu_tanh(const Tensor& x) { return gelu(x, GeluApproximation::tanh); }
Tensor gelu_erf(const Tensor& x) { return gelu(x); }

struct Case {
  const char* name;
  Tensor (*op)(const Tensor&);
  double (*formula)(double);
};
const Case kSmooth[]{
    {"sigmoid", sigmoid, sigmoid_of},
    {"tanh", tanh, [](double x) { return std::tanh(x); }},
    {"silu", silu, silu_of},
    {"gelu", gelu_erf, gelu_of},
    {"gelu tanh", gelu_tanh, gelu_tanh_of},
};

TEST(Activation, ValuesAgreeWithTheFormulas) {
  const Doubles at = spread(400, -9, 9);
  const std::vector<float> floats(at.begin(), at.end());
  for (const Case& c : kSmooth) {
    const Doubles in_double = list(c.op(make<double>(at))), in_float = list(c.op(make<float>(floats)));
    for (std::size_t i = 0; i < at.size(); ++i) {
      EXPECT_NEAR(in_double[i], c.formula(at[i]), 1e-14 * (1 + std::abs(at[i])))
          << c.name << "(" << at[i] << ")";
      const double want = c.formula(static_cast<double>(floats[i]));
      // 1 + erf(x) cancels in the lower tail: the error is a few ulp of 1, times x.
      EXPECT_NEAR(in_float[i], want, 3e-7 * (1 + std::abs(at[i]))) << c.name << "(" << at[i] << ")";
    }
  }
}

TEST(Activation, TailsOfSigmoidKeepTheirRelativeAccuracy) {
  for (const float x : {-80.0F, -30.0F, -10.0F, 10.0F}) {
    const double want = sigmoid_of(static_cast<double>(x));
    EXPECT_NEAR(sigmoid(make<float>({x})).item(), want, 4e-7 * want) << x;
  }
  EXPECT_EQ(list(sigmoid(make<float>({-INFINITY, INFINITY}))), (Doubles{0, 1}));
  EXPECT_EQ(list(tanh(make<float>({-INFINITY, INFINITY}))), (Doubles{-1, 1}));
}

TEST(Activation, ReluKeepsNanAndIntegers) {
  const Doubles got = list(relu(make<double>({-1, 0, 2, NAN, INFINITY, -INFINITY})));
  EXPECT_EQ(Doubles(got.begin(), got.begin() + 3), (Doubles{0, 0, 2}));
  EXPECT_TRUE(std::isnan(got[3]));
  EXPECT_EQ(Doubles(got.begin() + 4, got.end()), (Doubles{INFINITY, 0}));
  const Tensor ints = relu(make<std::int32_t>({-3, 4}));
  EXPECT_EQ(ints.dtype(), DType::i32);
  EXPECT_EQ(list(ints), (Doubles{0, 4}));
}

TEST(Activation, NanStaysNan) {
  const Tensor x = make<float>({NAN});
  for (const Case& c : kSmooth) EXPECT_TRUE(std::isnan(c.op(x).item())) << c.name;
}

TEST(Activation, SixteenBitResultsAreTheF32OnesRoundedOnce) {
  std::vector<BFloat16> all;
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    all.push_back(detail::bit_cast<BFloat16>(static_cast<std::uint16_t>(bits)));
  const Tensor x = make<BFloat16>(all), wide = x.to(DType::f32);
  for (const Case& c : kSmooth) {
    const Tensor got = c.op(x);
    EXPECT_EQ(got.dtype(), DType::bf16) << c.name;
    const std::vector<float> narrow = got.to_vector<float>(), exact = c.op(wide).to_vector<float>();
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      const auto want = static_cast<float>(BFloat16(exact[i]));
      ASSERT_TRUE(narrow[i] == want || (std::isnan(narrow[i]) && std::isnan(want))) << c.name << " " << i;
    }
  }
}

TEST(Activation, StridesDoNotChangeValues) {
  const Tensor x = make<float>({3, 4, 2}, [] {
    const Doubles values = spread(24, -3, 3);
    return std::vector<float>(values.begin(), values.end());
  }());
  for (const Case& c : kSmooth) EXPECT_EQ(list(c.op(strided_copy(x))), list(c.op(x))) << c.name;
  EXPECT_EQ(list(relu(strided_copy(x))), list(relu(x)));
  EXPECT_EQ(silu(zeros({0, 2})).shape(), (Shape{0, 2}));
}

TEST(ActivationGradients, OfBothOrdersMatchDifferences) {
  for (const Case& c : kSmooth) {
    expect_derivatives(c.name, [&c](const Tensors& in) { return c.op(in[0]); },
                       {leaf({3, 4}, spread(12, -3, 3))});
  }
  expect_derivatives("relu", [](const Tensors& in) { return relu(in[0]) * in[0]; },
                     {leaf({3, 4}, spread(12, -3, 3))});
}

TEST(ActivationGradients, OfBackwardOpsMatchDifferences) {
  const Tensors inputs{leaf({6}, spread(6, -2, 2)), leaf({6}, spread(6, 0.1, 0.9, 1))};
  const auto check = [&](const char* name, const Function& f) { expect_derivatives(name, f, inputs); };
  check("sigmoid_backward", [](const Tensors& in) { return sigmoid_backward(in[0], in[1]); });
  check("tanh_backward", [](const Tensors& in) { return tanh_backward(in[0], in[1]); });
  check("silu_backward", [](const Tensors& in) { return silu_backward(in[0], in[1]); });
  check("gelu_backward", [](const Tensors& in) { return gelu_backward(in[0], in[1]); });
  check("gelu_backward tanh",
        [](const Tensors& in) { return gelu_backward(in[0], in[1], GeluApproximation::tanh); });
}

TEST(ActivationGradients, ThirdDerivativeOfGeluMatchesTheFormula) {
  // gelu''' = (x^3 - 4 x) times the normal density
  const Doubles at{-1.3, 0.2, 2.1};
  const Tensor x = leaf(at), ones = make<double>({1, 1, 1});
  Tensor y = gelu(x);
  for (int order = 0; order < 3; ++order)
    y = grad({&y, 1}, Tensors{x}, {&ones, 1}, {.create_graph = true})[0];
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double density = std::exp(-at[i] * at[i] / 2) / std::sqrt(2 * M_PI);
    EXPECT_NEAR(list(y)[i], (at[i] * at[i] * at[i] - 4 * at[i]) * density, 1e-12);
  }
}

TEST(ActivationGradients, ReluIsFlatAtZeroAndLetsNanPass) {
  const Tensor x = leaf({0, -0.0, 1.5, -1.5, NAN}), ones = make<double>({1, 2, 3, 4, 5});
  const Tensor y = relu(x);
  EXPECT_EQ(list(grad({&y, 1}, Tensors{x}, {&ones, 1})[0]), (Doubles{0, 0, 3, 0, 5}));
}

TEST(ActivationErrors, IntegersAndBoolsAreRefusedWhereTheyMakeNoSense) {
  const Tensor ints = make<std::int64_t>({1});
  EXPECT_EQ(message_of<DTypeError>([&] { (void)gelu(ints); }),
            "gelu: expected a floating tensor, got i64; convert it with to(DType::f32)");
  EXPECT_NE(message_of<DTypeError>([&] { (void)silu(ints); }).find("silu: "), std::string::npos);
  EXPECT_NE(message_of<DTypeError>([&] { (void)relu(bools({1}, {1})); }).find("relu: "), std::string::npos);
  EXPECT_NE(
      message_of<ShapeError>([&] { (void)tanh_backward(zeros({3}), zeros({4})); }).find("tanh_backward: "),
      std::string::npos);
}

}  // namespace
}  // namespace mezzo
