// Gradients of small operands that are broadcast: behind a cast from f32 their sums arrive in f32. In 16 bits
// 100,000 terms of 1 are infinite (f16) or rounded (bf16). On every device there is.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/cuda.h"
#include "mezzo/ops/ops.h"

namespace mezzo::amp {
namespace {

constexpr std::int64_t kTerms = 100'000;  // more than f16 holds, and no number of bf16

struct Place {
  Device device;
  DType dtype;  // of the 16-bit side
};
std::vector<Place> places() {
  std::vector<Place> list;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    list.push_back({Device::cpu(), dtype});
    if (cuda::is_available()) list.push_back({Device::cuda(), dtype});
  }
  return list;
}

using Doubles = std::vector<double>;

/// y of a 16-bit x and the f32 leaf `small`.
using Call = std::function<Tensor(const Tensor& x, const Tensor& small, const Place& place)>;

/// The gradient of sum(y) by x.
Tensor gradient_of(const Tensor& y, const Tensor& x) {
  const std::array upstream{ones_like(y)};
  return grad({&y, 1}, {&x, 1}, upstream)[0];
}

/// The gradient of `small` under upstream gradients of 1, for x = -1 everywhere.
void expect_gradient(const Shape& x_shape, const Tensor& small_values, const Call& call,
                     const Doubles& expected) {
  for (const Place& place : places()) {
    SCOPED_TRACE(to_string(place.device) + " " + to_string(place.dtype));
    const Tensor x = full(x_shape, -1, {.dtype = place.dtype, .device = place.device});
    const Tensor small = small_values.to(place.device).detach().requires_grad_();
    const Tensor y = call(x, small, place);
    ASSERT_EQ(y.dtype(), place.dtype);
    const Tensor found = gradient_of(y, small);
    EXPECT_EQ(found.dtype(), DType::f32);
    EXPECT_EQ(found.to_vector<double>(), expected);
  }
}

Tensor prelu_in_region(const Tensor& x, const Tensor& weight, const Place& place) {
  const Autocast region(place.device, place.dtype);
  return prelu(x, weight);
}

TEST(BroadcastGradient, OfPreluWeightIsAnF32Sum) {
  expect_gradient({kTerms}, full({1}, 0.5), prelu_in_region, {-kTerms});
  expect_gradient({kTerms}, full({}, 0.5), prelu_in_region, {-kTerms});
  expect_gradient({2, 3, kTerms / 2}, full({3}, 0.5), prelu_in_region, {-kTerms, -kTerms, -kTerms});
}

TEST(BroadcastGradient, OfPreluIsAnF32SumWhenDifferentiatedTwice) {
  for (const Place& place : places()) {
    SCOPED_TRACE(to_string(place.device) + " " + to_string(place.dtype));
    const Tensor x = full({kTerms}, -1, {.dtype = place.dtype, .device = place.device}).requires_grad_();
    const Tensor weight = full({1}, 0.5, {.device = place.device}).requires_grad_();
    const Tensor y = prelu_in_region(x, weight, place);
    // The gradient of each x is the weight, and that by the weight 1.
    const std::array inputs{x, weight};
    const std::array upstream{ones_like(y)};
    const Tensors once = grad({&y, 1}, inputs, upstream, {.create_graph = true});
    EXPECT_EQ(once[0].to_vector<double>(), Doubles(kTerms, 0.5));
    EXPECT_EQ(once[1].to_vector<double>(), Doubles{-kTerms});
    const Tensor twice = gradient_of(once[0], weight);
    EXPECT_EQ(twice.dtype(), DType::f32);
    EXPECT_EQ(twice.to_vector<double>(), Doubles{kTerms});
  }
}

TEST(BroadcastGradient, OfAnElementwiseOpIsAnF32Sum) {
  const auto product = [](const Tensor& x, const Tensor& w, const Place& place) {
    return x * w.to(place.dtype);
  };
  const auto sum_with = [](const Tensor& x, const Tensor& w, const Place& place) {
    return x + w.to(place.dtype);
  };
  expect_gradient({kTerms}, full({1}, 0.5), product, {-kTerms});
  expect_gradient({kTerms, 2}, full({2}, 0.5), product, {-kTerms, -kTerms});
  expect_gradient({kTerms}, full({1}, 0.5), sum_with, {kTerms});
  expect_gradient({kTerms, 2}, full({2}, 0.5), sum_with, {kTerms, kTerms});
}

TEST(BroadcastGradient, OfAViewIsAnF32Sum) {
  expect_gradient({1}, full({1}, 0.5),
                  [](const Tensor& /*x*/, const Tensor& w, const Place& place) {
                    return expand(w.to(place.dtype), {kTerms});
                  },
                  {kTerms});
}

TEST(BroadcastGradient, OfValuesThatArePutIsAnF32Sum) {
  const auto put = [](const Tensor& x, const Tensor& w, const Place& place) {
    return index_put(x, {arange(kTerms, {.device = place.device})}, w.to(place.dtype));
  };
  expect_gradient({kTerms}, full({1}, 0.5), put, {kTerms});
}

TEST(BroadcastGradient, OfTheSummandOfAProductIsAnF32Sum) {
  const auto with_bias = [](const Tensor& x, const Tensor& bias, const Place& place) {
    const Autocast region(place.device, place.dtype);
    return addmm(bias, x, zeros({1, 2}, {.device = place.device}));
  };
  expect_gradient({kTerms, 1}, full({2}, 0.5), with_bias, {kTerms, kTerms});
}

}  // namespace
}  // namespace mezzo::amp
