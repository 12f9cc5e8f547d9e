// The activations of ops/activation.h: extreme values, kinks, NaN and errors, which neither goldens nor the
// sweep see.
#include "mezzo/ops/activation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;
using Unary = Tensor (*)(const Tensor&);

const Unary kUnary[]{relu6, hardsigmoid, hardswish, selu, logsigmoid, softsign, mish};

/// First and second derivative of f at each x.
std::pair<Doubles, Doubles> slopes(const std::function<Tensor(const Tensor&)>& f, const Doubles& at) {
  const Tensor x = leaf(at), one = make<double>(Doubles(at.size(), 1.0));
  const Tensor first = grad(Tensors{f(x)}, Tensors{x}, Tensors{one}, {.create_graph = true})[0];
  return {list(first), list(grad(Tensors{first}, Tensors{x}, Tensors{one})[0])};
}

TEST(ActivationFamily, NanStaysNanAndIntegersAreRefused) {
  for (const Unary op : kUnary) {
    EXPECT_TRUE(std::isnan(op(make<float>({NAN})).item()));
    EXPECT_TRUE(std::isnan(op(make<double>({NAN})).item()));
    EXPECT_THROW(static_cast<void>(op(make<std::int32_t>({1}))), DTypeError);
  }
  const Tensor nan = make<float>({NAN});
  for (const Tensor& y : {leaky_relu(nan), hardtanh(nan), softshrink(nan), elu(nan), celu(nan), softplus(nan),
                          prelu(nan, make<float>({0.5F}))})
    EXPECT_TRUE(std::isnan(y.item()));
}

TEST(ActivationFamily, LargeValuesNeitherOverflowNorLoseTheirSlope) {
  const Doubles large{-1000, 1000};
  for (const double size : {1e3, 1e30}) {
    const auto big = static_cast<float>(size);
    const Tensor x = make<float>({-big, big});
    EXPECT_EQ(list(softplus(x)), (Doubles{0, static_cast<double>(big)}));
    EXPECT_EQ(list(logsigmoid(x)), (Doubles{-static_cast<double>(big), 0}));
    EXPECT_EQ(list(mish(x)), (Doubles{0, static_cast<double>(big)}));
    EXPECT_EQ(list(elu(x)), (Doubles{-1, static_cast<double>(big)}));
  }
  const auto elu_of = [](const Tensor& x) { return elu(x); };
  const auto softplus_of = [](const Tensor& x) { return softplus(x, 1, 2000); };
  EXPECT_EQ(slopes(elu_of, large), (std::pair{Doubles{0, 1}, Doubles{0, 0}}));
  EXPECT_EQ(slopes(softplus_of, large), (std::pair{Doubles{0, 1}, Doubles{0, 0}}));
  EXPECT_EQ(slopes(mish, large), (std::pair{Doubles{0, 1}, Doubles{0, 0}}));
}

TEST(ActivationFamily, SlopesAtTheKinksArePyTorchs) {
  EXPECT_EQ(slopes(hardsigmoid, {-3, 3}).first, (Doubles{0, 0}));
  EXPECT_EQ(slopes(hardswish, {-3, 3}).first, (Doubles{-0.5, 1.5}));
  EXPECT_EQ(slopes([](const Tensor& x) { return softshrink(x); }, {-0.5, 0.5}).first, (Doubles{0, 0}));
  EXPECT_EQ(slopes([](const Tensor& x) { return elu(x, 2); }, {0}).first, (Doubles{2}));
}

/// Values and slopes of torch 2.15 in f64 at [-2, -0.5, -0.3, 0, 0.2, 0.5, 0.7, 3].
TEST(ActivationFamily, ThresholdHardshrinkAndTanhshrinkEqualTorch) {
  const auto f64 = [](std::initializer_list<double> values) { return tensor(values, {.dtype = DType::f64}); };
  const auto expect_torch = [&](const auto& f, const Tensor& value, const Tensor& slope) {
    const Tensor x = f64({-2, -0.5, -0.3, 0, 0.2, 0.5, 0.7, 3}).requires_grad_();
    const Tensor y = f(x);
    EXPECT_TRUE(allclose(y, value, 1e-8, 1e-10)) << y;
    y.sum().backward();
    EXPECT_TRUE(allclose(x.grad(), slope, 1e-8, 1e-10)) << x.grad();
  };
  expect_torch([](const Tensor& x) { return threshold(x, 0.2, 20); }, f64({20, 20, 20, 20, 20, 0.5, 0.7, 3}),
               f64({0, 0, 0, 0, 0, 1, 1, 1}));
  expect_torch([](const Tensor& x) { return hardshrink(x); }, f64({-2, 0, 0, 0, 0, 0, 0.7, 3}),
               f64({1, 0, 0, 0, 0, 0, 1, 1}));
  expect_torch(
      [](const Tensor& x) { return tanhshrink(x); },
      f64({-1.03597242, -0.0378828427, -0.00868738755, 0, 0.00262467978, 0.0378828427, 0.0956322229,
           2.00494525}),
      f64({0.929349175, 0.213552267, 0.0848630382, 0, 0.038957017, 0.213552267, 0.36526041, 0.990133963}));
  expect_torch([](const Tensor& x) { return rrelu(x); },
               f64({-0.458333333, -0.114583333, -0.06875, 0, 0.2, 0.5, 0.7, 3}),
               f64({11.0 / 48, 11.0 / 48, 11.0 / 48, 11.0 / 48, 1, 1, 1, 1}));
}

TEST(ActivationFamily, AttributesThatMakeNoSenseAreRefused) {
  const Tensor x = make<float>({1});
  EXPECT_THROW(static_cast<void>(hardtanh(x, 1, -1)), ValueError);
  EXPECT_THROW(static_cast<void>(softshrink(x, -1)), ValueError);
  EXPECT_THROW(static_cast<void>(celu(x, 0)), ValueError);
  EXPECT_THROW(static_cast<void>(softplus(x, 0)), ValueError);
}

TEST(ActivationFamily, PreluChecksItsWeight) {
  const Tensor x = make<float>({2, 3}, {-1, -1, -1, 1, 1, 1});
  EXPECT_EQ(list(prelu(x, make<float>({2, 3, 4}))), (Doubles{-2, -3, -4, 1, 1, 1}));
  EXPECT_THROW(static_cast<void>(prelu(x, make<float>({2, 3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(prelu(make<float>({1, 2}), make<float>({2, 3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(prelu(x, make<float>({1, 3}, {2, 3, 4}))), ShapeError);
  EXPECT_EQ(prelu(make<float>({0, 3}, {}), make<float>({2, 3, 4})).numel(), 0);
}

}  // namespace
}  // namespace mezzo
