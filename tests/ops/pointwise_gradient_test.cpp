// First and second derivatives of the pointwise ops against central differences in f64, and the conventions
// where a function has no derivative. Values are in pointwise_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

constexpr double kInf = std::numeric_limits<double>::infinity();

using Doubles = std::vector<double>;

/// Gradients of sum(f * weights) at leaves.
Tensors gradients(const Function& f, const Tensors& inputs, const Doubles& weights) {
  const Tensor y = f(inputs);
  const Tensor w = make<double>(y.shape(), weights);
  return grad({&y, 1}, inputs, {&w, 1});
}

/// Derivatives of a function of two tensors that broadcast: [3, 1, 2] with [4, 1], values in two ranges.
void check_two(const std::string& name, Tensor (*f)(const Tensor&, const Tensor&), double low_a,
               double high_a, double low_b, double high_b) {
  const Tensors inputs{leaf({3, 1, 2}, spread(6, low_a, high_a)), leaf({4, 1}, spread(4, low_b, high_b, 1))};
  expect_derivatives(
      name, [f](const Tensors& in) { return f(in[0], in[1]); }, inputs);
}
void check_one(const std::string& name, const std::function<Tensor(const Tensor&)>& f, double low,
               double high, bool second = true) {
  expect_derivatives(
      name, [&f](const Tensors& in) { return f(in[0]); }, {leaf({2, 4}, spread(8, low, high))}, second);
}

TEST(PointwiseGradients, OfTwoTensorsMatchDifferences) {
  check_two("mul", mul, -2, 2, -2, 2);
  check_two(
      "div", [](const Tensor& a, const Tensor& b) { return div(a, b); }, -2, 2, 0.5, 2);
  check_two(
      "pow", [](const Tensor& a, const Tensor& b) { return pow(a, b); }, 0.3, 2, -2, 2);
  const auto linear = [](const std::string& name, const Function& f) {
    const Tensors inputs{leaf({3, 2}, spread(6, -2, 2)), leaf({2}, spread(2, -2, 2))};
    expect_derivatives(name, f, inputs, false);
  };
  linear("add", [](const Tensors& in) { return add(in[0], in[1], -1.5); });
  linear("sub", [](const Tensors& in) { return sub(in[0], in[1], 2); });
  linear("maximum", [](const Tensors& in) { return maximum(in[0], in[1]); });
  linear("minimum", [](const Tensors& in) { return minimum(in[0], in[1]); });
  linear("where", [](const Tensors& in) { return where(bools({3, 1}, {1, 0, 1}), in[0], in[1]); });
}

TEST(PointwiseGradients, OfProductsThatUseATensorTwiceMatchDifferences) {
  check_one(
      "x * maximum(x, 0.3)", [](const Tensor& x) { return x * maximum(x, number(0.3)); }, -2, 2);
  check_one(
      "x * clamp(x)", [](const Tensor& x) { return x * clamp(x, -1, 1); }, -2, 2);
  check_one(
      "x * where", [](const Tensor& x) { return x * where(gt(x, 0), x, -x); }, -2, 2);
}

TEST(PointwiseGradients, OfNumbersWithTensorsMatchDifferences) {
  check_one(
      "x + s", [](const Tensor& x) { return x + 2.5; }, -2, 2, false);
  check_one(
      "s - x", [](const Tensor& x) { return 2.5 - x; }, -2, 2, false);
  check_one(
      "x * s", [](const Tensor& x) { return x * -3; }, -2, 2, false);
  check_one(
      "x / s", [](const Tensor& x) { return x / 2.5; }, -2, 2, false);
  check_one(
      "s / x", [](const Tensor& x) { return -1.5 / x; }, 0.5, 2);
  for (const double p : {2.0, 3.0, 1.0, -1.0, -1.5, 0.5, 2.7})
    check_one(
        "x ^ " + std::to_string(p), [p](const Tensor& x) { return pow(x, p); }, 0.3, 2);
  check_one(
      "x ^ 3 below 0", [](const Tensor& x) { return pow(x, 3); }, -2, -0.3);
  for (const double s : {2.0, 0.5})
    check_one(
        std::to_string(s) + " ^ x", [s](const Tensor& x) { return pow(s, x); }, -2, 2);
}

TEST(PointwiseGradients, OfFunctionsOfOneNumberMatchDifferences) {
  check_one("neg", neg, -2, 2, false);
  check_one("abs", abs, 0.1, 2, false);
  check_one("abs below 0", abs, -2, -0.1, false);
  check_one("sign", sign, 0.1, 2, false);
  check_one("square", square, -2, 2);
  check_one("exp", exp, -2, 2);
  check_one("log", log, 0.3, 3);
  check_one("sqrt", sqrt, 0.3, 3);
  check_one("rsqrt", rsqrt, 0.3, 3);
  check_one("reciprocal", reciprocal, 0.4, 2);
}

TEST(PointwiseGradients, OfClampBetweenTensorsReachWhoeverDecides) {
  const Tensor x = leaf({-2, 0.2, 3, 1}), low = leaf({-1, -1, -1, 2}), high = leaf({1, 1, 1, 0.5});
  const Tensors g =
      gradients([](const Tensors& in) { return clamp(in[0], in[1], in[2]); }, {x, low, high}, {1, 2, 3, 4});
  EXPECT_EQ(list(g[0]), (Doubles{0, 2, 0, 0}));
  EXPECT_EQ(list(g[1]), (Doubles{1, 0, 0, 0}));
  EXPECT_EQ(list(g[2]), (Doubles{0, 0, 3, 4}));
}

TEST(PointwiseGradients, RoundedQuotientsHaveGradientZero) {
  const Tensors inputs{leaf({5, -5}), leaf({2, 2})};
  for (const RoundingMode mode : {RoundingMode::trunc, RoundingMode::floor}) {
    const Tensors g =
        gradients([mode](const Tensors& in) { return div(in[0], in[1], mode); }, inputs, {1, 1});
    EXPECT_EQ(list(g[0]), (Doubles{0, 0}));
    EXPECT_EQ(list(g[1]), (Doubles{0, 0}));
  }
}

TEST(PointwiseKinks, TiesShareTheGradient) {
  for (const auto f : {maximum, minimum}) {
    const Tensors g =
        gradients([f](const Tensors& in) { return f(in[0], in[1]); }, {leaf({1, -1}), leaf({1, -1})}, {3, 5});
    EXPECT_EQ(list(g[0]), (Doubles{1.5, 2.5}));
    EXPECT_EQ(list(g[1]), (Doubles{1.5, 2.5}));
  }
}

TEST(PointwiseKinks, AbsAndSignAreFlatAtZeroAndBoundsLetTheGradientPass) {
  const auto one = [](Tensor (*f)(const Tensor&), const Doubles& at) {
    return list(gradients([f](const Tensors& in) { return f(in[0]); }, {leaf(at)}, Doubles(at.size(), 1))[0]);
  };
  EXPECT_EQ(one(abs, {0, -0.0, 2}), (Doubles{0, 0, 1}));
  EXPECT_EQ(one(sign, {0, 3}), (Doubles{0, 0}));
  EXPECT_EQ(one([](const Tensor& x) { return clamp(x, -0.5, 0.7); }, {-0.5, 0.7, 0, -0.6, 0.8}),
            (Doubles{1, 1, 1, 0, 0}));
  EXPECT_EQ(one(sqrt, {0, 4}), (Doubles{kInf, 0.25}));
}

TEST(PointwiseKinks, PowAtZeroHasNoNan) {
  // base:     0^0, 0^2, 2^0, 0^0.5     exponent 0 makes a constant; log 0 must not spoil the rest
  const Tensors inputs{leaf({0, 0, 2, 0}), leaf({0, 2, 0, 1})};
  const Function f = [](const Tensors& in) { return pow(in[0], in[1]); };
  const Tensors g = gradients(f, inputs, {1, 1, 1, 1});
  EXPECT_EQ(list(g[0]), (Doubles{0, 0, 0, 1}));
  EXPECT_EQ(list(g[1]), (Doubles{0, 0, std::log(2.0), 0}));

  const Tensor y = f(inputs), ones = make<double>({1, 1, 1, 1});
  const Tensors first = grad({&y, 1}, inputs, {&ones, 1}, {.create_graph = true});
  const Tensors along{ones, ones};
  for (const Tensor& second : grad(first, inputs, along)) {
    for (const double value : list(second)) EXPECT_TRUE(std::isfinite(value)) << value;
  }
}

TEST(PointwiseKinks, PowersOfNumbersAtZero) {
  const auto one = [](const std::function<Tensor(const Tensor&)>& f, const Doubles& at) {
    return list(
        gradients([&f](const Tensors& in) { return f(in[0]); }, {leaf(at)}, Doubles(at.size(), 1))[0]);
  };
  EXPECT_EQ(one([](const Tensor& x) { return pow(x, 0); }, {0, 3}), (Doubles{0, 0}));
  EXPECT_EQ(one([](const Tensor& x) { return pow(x, 2); }, {0, 3}), (Doubles{0, 6}));
  EXPECT_EQ(one([](const Tensor& x) { return pow(0.0, x); }, {0, 2, -1}), (Doubles{0, 0, -kInf}));
  EXPECT_EQ(one([](const Tensor& x) { return pow(1, x); }, {0, 2}), (Doubles{0, 0}));
}

TEST(PointwiseGradients, ReachLeavesInTheirOwnDTypeAndShape) {
  const Tensor half = make<Half>({2, 2}, {Half(1.0F), Half(2.0F), Half(3.0F), Half(4.0F)}).requires_grad_();
  const Tensor scale = number(2.0F).requires_grad_();
  const Tensor y = half * scale, w = make<Half>({2, 2}, std::vector<Half>(4, Half(1.0F)));
  EXPECT_EQ(y.dtype(), DType::f16);
  const Tensors g = grad({&y, 1}, Tensors{half, scale}, {&w, 1});
  EXPECT_EQ(g[0].dtype(), DType::f16);
  EXPECT_EQ(g[1].dtype(), DType::f32);
  EXPECT_EQ(g[1].shape(), Shape{});
  EXPECT_EQ(list(g[1]), (Doubles{10}));
}

TEST(PointwiseGradients, DoNotMultiplyNanIntoWhatWasNotChosen) {
  const Tensors g = gradients([](const Tensors& in) { return where(gt(in[0], 0), log(in[0]), in[0]); },
                              {leaf({2, -1})}, {1, 1});
  EXPECT_EQ(list(g[0]), (Doubles{0.5, 1}));
}

}  // namespace
}  // namespace mezzo
