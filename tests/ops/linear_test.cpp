// linear and addmm have the bits of the steps that they are made of, forward and backward.
#include <gtest/gtest.h>

#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

Tensor values(std::uint64_t seed, const Shape& shape, DType dtype) {
  Generator generator(seed);
  return uniform(-1, 1, shape, {.dtype = DType::f64}, generator).to(dtype);
}
std::vector<double> list(const Tensor& x) { return x.detach().to_vector<double>(); }

constexpr DType kFloating[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

TEST(Linear, AddsTheProductToTheBias) {
  for (const DType dtype : kFloating) {
    for (const std::int64_t size : {3, 100}) {
      SCOPED_TRACE(to_string(dtype) + " " + std::to_string(size));
      const Tensor x = values(1, {size, 40}, dtype), weight = values(2, {size, 40}, dtype);
      const Tensor bias = values(3, {size}, dtype),
                   every_second = slice(values(4, {2 * size}, dtype), 0, 0, 2 * size, 2);
      for (const Tensor& b : {bias, every_second}) {
        const Tensor rows = expand(b, {size, size}).contiguous(), columns = transpose(weight, 0, 1);
        EXPECT_EQ(list(linear(x, weight, b)), list(addmm(rows, x, columns)));
        EXPECT_EQ(list(addmm(b, x, columns, 1, -2)), list(addmm(rows, x, columns, 1, -2)));
      }
    }
  }
}

TEST(Linear, WithoutOutputsHasGradientsOfZeroForItsInput) {
  const Tensor x = values(1, {2, 3, 4}, DType::f32), weight = zeros({0, 4}), bias = zeros({0});
  x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_();
  const Tensor y = linear(x, weight, bias);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 0}));
  sum(y).backward();
  EXPECT_EQ(list(x.grad()), std::vector<double>(24));
  EXPECT_EQ(weight.grad().shape(), (Shape{0, 4}));
  EXPECT_EQ(bias.grad().shape(), (Shape{0}));
}

TEST(Linear, GradientsOfWeightAndBiasAreThoseOfTheSteps) {
  for (const DType dtype : kFloating) {
    for (const DType parameters : {dtype, DType::f32}) {
      SCOPED_TRACE(to_string(dtype) + " " + to_string(parameters));
      const Tensor x = values(1, {2, 33, 20}, dtype), grad = values(2, {2, 33, 24}, dtype);
      const Tensor weight = values(3, {24, 20}, parameters), bias = values(4, {24}, parameters);
      weight.requires_grad_(), bias.requires_grad_();
      linear(x, weight.to(dtype), bias.to(dtype)).backward(grad, {});
      const Tensor rows = reshape(grad, {66, 24});
      const DType wide = promote(dtype, parameters);  // a narrower gradient is rounded at the end
      const Tensor product = matmul(transpose(rows, 0, 1), reshape(x, {66, 20}), wide);
      EXPECT_EQ(list(weight.grad()), list(product.to(parameters)));
      EXPECT_EQ(list(bias.grad()), list(sum(rows, {0}, false, wide).to(parameters)));
    }
  }
}

}  // namespace
}  // namespace mezzo
