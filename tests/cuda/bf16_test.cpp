// bf16 on GPUs of every generation: products and convolutions whose sums are exact have the CPU's bits, and
// where a GPU multiplies bf16 in f32, one warning says so.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/ops/attention.h"
#include "mezzo/tests/cuda/twin.h"
#include "support/caught_warnings.h"

namespace mezzo {
namespace {

using namespace twin;
using CudaBf16 = CudaTwin;

/// Integers from -3 to 3.
Tensor integers(std::uint64_t seed, const Shape& shape, DType dtype, Device device) {
  return round(values(seed, shape, DType::f64, Device::cpu()) * 3.4).to(dtype).to(device).detach();
}

TEST_F(CudaBf16, ProductsOfIntegersHaveTheBitsOfTheCpu) {
  const auto run = [](Device device) {
    return matmul(integers(1, {33, 170}, DType::bf16, device), integers(2, {170, 20}, DType::bf16, device))
        .to_vector<double>();
  };
  EXPECT_EQ(run(Device::cuda(0)), run(Device::cpu()));
}

TEST_F(CudaBf16, LayersUnderAutocastHaveTheBitsOfTheCpu) {
  const auto run = [](Device device) {
    const auto parameter = [&](std::uint64_t seed, const Shape& shape) {
      return integers(seed, shape, DType::f32, device).requires_grad_();
    };
    const Tensor kernel = parameter(1, {4, 3, 3, 3}), shift = parameter(2, {4}),
                 weight = parameter(3, {5, 4}), bias = parameter(4, {5}),
                 x = integers(5, {2, 3, 6, 5}, DType::f32, device).requires_grad_();
    std::vector<Tensor> all;
    {
      const amp::Autocast region(device, DType::bf16);
      const Tensor image = conv2d(x, kernel, shift);
      const Tensor out = linear(sign(select(flatten(image, 2), 2, 0)).detach(), weight, bias);
      sum(out).backward();
      sum(image).backward();
      all = {image, out};
    }
    for (const Tensor& leaf : {kernel, shift, weight, bias, x}) all.push_back(leaf.grad());
    std::vector<std::vector<double>> numbers;
    for (const Tensor& tensor : all) numbers.push_back(tensor.detach().to_vector<double>());
    return numbers;
  };
  EXPECT_EQ(run(Device::cuda(0)), run(Device::cpu()));
}

TEST_F(CudaBf16, AWarningSaysOnceWhereItIsMultipliedInF32) {
  const auto use = [](DType dtype) {
    const Tensor x = integers(1, {1, 2, 8, 8}, dtype, Device::cuda(0));
    static_cast<void>(matmul(x, x));
    static_cast<void>(scaled_dot_product_attention(x, x, x));
    static_cast<void>(conv2d(x, integers(2, {2, 2, 3, 3}, dtype, Device::cuda(0))));
  };
  const test::CaughtWarnings caught;
  use(DType::f16);
  use(DType::f32);
  EXPECT_TRUE(caught.names().empty());
  use(DType::bf16);
  use(DType::bf16);
  if (has_tf32()) {
    EXPECT_TRUE(caught.names().empty());
    return;
  }
  ASSERT_EQ(caught.names(), std::vector<std::string>{"bf16_in_f32"});
  const std::string begin =
      "matmul: expected a GPU of compute capability 8.0 or above for bf16, got cuda:0 of ";
  EXPECT_EQ(caught.texts()[0].find(begin + std::to_string(cuda::compute_capability(0) / 10) + "."), 0U)
      << caught.texts()[0];
}

}  // namespace
}  // namespace mezzo
