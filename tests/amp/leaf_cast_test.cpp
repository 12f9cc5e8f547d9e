// Backward passes autocast's casts of weights by: gradients, sums of several uses, hooks and second gradients
// are those of casts that a program makes itself.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"

namespace mezzo::amp {
namespace {

const Device kCpu = Device::cpu();

class LeafCast : public ::testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] Tensor random(const Shape& shape) { return uniform(-1, 1, shape, {}, generator).detach(); }
  Tensor leaf(const Shape& shape) { return random(shape).requires_grad_(); }

  static void expect_near(const Tensor& got, const Tensor& want, double error) {
    const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], error * (1 + std::abs(b[i])));
  }

  Generator generator{5};
  DType dtype = GetParam();
  Tensor x = random({6, 5}), w = leaf({4, 5}), b = leaf({4});
};

TEST_P(LeafCast, GradientsAreThoseOfCastsInTheProgram) {
  Tensor y;
  {
    const Autocast autocast(kCpu, dtype);
    y = linear(x, w, b);
  }
  y.to(DType::f32).pow(2).sum().backward();
  const Tensor gw = w.grad(), gb = b.grad();
  w.set_grad({}), b.set_grad({});
  linear(x.to(dtype), w.to(dtype), b.to(dtype)).to(DType::f32).pow(2).sum().backward();
  EXPECT_EQ(gw.dtype(), DType::f32);
  EXPECT_EQ(bits(gw), bits(w.grad()));
  EXPECT_EQ(bits(gb), bits(b.grad()));
}

TEST_P(LeafCast, UsesInBothDtypesAddUpInF32) {
  const auto loss = [&](const Tensor& first, const Tensor& second) {
    return (first.to(DType::f32).sum() + second.to(DType::f32).pow(2).sum() + w.pow(3).sum());
  };
  Tensor once, twice;
  {
    const Autocast autocast(kCpu, dtype);
    once = linear(x, w);
    twice = matmul(w, transpose(w, 0, 1));
  }
  loss(once, twice).backward();
  const Tensor gradient = w.grad();
  w.set_grad({});
  const auto narrow = [&] { return w.to(dtype); };
  loss(linear(x.to(dtype), narrow()), matmul(narrow(), transpose(w, 0, 1).to(dtype))).backward();
  EXPECT_EQ(gradient.dtype(), DType::f32);
  expect_near(gradient, w.grad(), 1e-5);
}

TEST_P(LeafCast, HooksOfTheLeafRunOnceWithAnF32Gradient) {
  int calls = 0;
  w.register_hook([&](const Tensor& gradient) {
    ++calls;
    EXPECT_EQ(gradient.dtype(), DType::f32);
    return gradient * 2.0;
  });
  Tensor y;
  {
    const Autocast autocast(kCpu, dtype);
    y = linear(x, w) + linear(x, w);
  }
  y.to(DType::f32).sum().backward();
  EXPECT_EQ(calls, 1);
}

TEST_P(LeafCast, GradGivesTheSameAndSecondGradientsExist) {
  Tensor y;
  {
    const Autocast autocast(kCpu, dtype);
    y = linear(x, w, b);
  }
  const Tensor loss = y.to(DType::f32).pow(2).sum();
  const Tensor first = grad(loss, w, {}, {.create_graph = true})[0];
  EXPECT_EQ(first.dtype(), DType::f32);
  EXPECT_TRUE(first.requires_grad());
  const Tensor second = grad(first.sum(), w)[0];
  EXPECT_EQ(second.dtype(), DType::f32);
  // d/dw of the sum of 2 (x w^T + b)^T x is 2 s x^T x with s = 1, up to the rounding of 16 bits.
  const Tensor exact = 2.0 * matmul(ones({4, 5}), matmul(transpose(x, 0, 1), x));
  expect_near(second, exact, dtype == DType::f16 ? 5e-3 : 4e-2);
}

TEST_P(LeafCast, WhatCastToRegionReturnsIsAnOrdinaryTensor) {
  int calls = 0;
  const Autocast autocast(kCpu, dtype);
  const Tensor narrow = cast_to_region(w);
  narrow.register_hook([&](const Tensor& gradient) {
    ++calls;
    return gradient;
  });
  const Tensor loss = narrow.to(DType::f32).sum();
  EXPECT_EQ(grad(loss, narrow, {}, {.retain_graph = true})[0].dtype(), dtype);
  static_cast<void>(grad(loss, w));
  EXPECT_EQ(calls, 2);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LeafCast, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace mezzo::amp
