// Poolings, unfold and fold on the device have the CPU's bits: sums are taken in one order everywhere. In
// both layouts and all floating dtypes, and with more elements than a grid has threads.
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;

using CudaPools = CudaTwin;
using Function = std::function<Tensor(const Tensor& x)>;

/// Result and gradient of f on both devices, exactly.
void expect_same_bits(const Shape& shape, DType dtype, MemoryFormat format, const Function& f) {
  SCOPED_TRACE(::testing::Message() << to_string(shape) << " " << to_string(dtype));
  const auto run = [&](Device device) {
    const Tensor x = values(1, shape, dtype, device).contiguous(format).detach().requires_grad_();
    const Tensor y = f(x);
    y.backward(values(2, y.shape(), dtype, device), {});
    return std::array{y.detach().to_vector<double>(), x.grad().to_vector<double>()};
  };
  EXPECT_EQ(run(Device::cuda(0)), run(Device::cpu()));
}

constexpr std::int64_t kLongestStride = 2147483647;

const Function kPools[] = {
    [](const Tensor& x) { return max_pool2d(x, {.kernel_size = 3, .stride = 2, .padding = 1}); },
    [](const Tensor& x) {
      return max_pool2d(x, {.kernel_size = 2, .stride = 1, .padding = 1, .dilation = 3});
    },
    [](const Tensor& x) {
      return avg_pool2d(x, {.kernel_size = {3, 2}, .stride = {1, 2}, .padding = 1});
    },
    [](const Tensor& x) {
      return avg_pool2d(x, {.kernel_size = 3, .stride = 4, .ceil_mode = true, .divisor_override = 7});
    },
    [](const Tensor& x) {
      return adaptive_max_pool2d(x, {3, 4});
    },
    [](const Tensor& x) {
      return adaptive_avg_pool2d(x, {4, 3});
    },
    // With the padding such a stride leaves 32 bits, so places are counted in 64.
    [](const Tensor& x) { return max_pool2d(x, {.kernel_size = 3, .stride = kLongestStride, .padding = 1}); },
    [](const Tensor& x) {
      return avg_pool2d(x, {.kernel_size = {3, 2}, .stride = {kLongestStride, 1}, .padding = 1});
    },
};

TEST_F(CudaPools, HaveTheBitsOfTheCpu) {
  for (const Function& pool : kPools) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
        expect_same_bits({2, 5, 11, 23}, dtype, format, pool);
    }
  }
}

TEST_F(CudaPools, OfMoreElementsThanThreads) {
  expect_same_bits({3, 8, 160, 161}, DType::f32, MemoryFormat::contiguous, kPools[0]);
  expect_same_bits({3, 8, 160, 161}, DType::f32, MemoryFormat::channels_last, kPools[2]);
}

TEST_F(CudaPools, ColumnsToo) {
  const FoldOptions options{.kernel_size = {3, 2}, .dilation = {1, 2}, .padding = 1, .stride = {2, 1}};
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    expect_same_bits({2, 3, 9, 12}, dtype, MemoryFormat::contiguous,
                     [&](const Tensor& x) { return unfold(x, options); });
    expect_same_bits({2, 18, 60}, dtype, MemoryFormat::contiguous, [&](const Tensor& x) {
      return fold(x, {9, 12}, options);
    });
  }
}

TEST_F(CudaPools, NeverUseAnIndexThatIsNoPlace) {
  const Tensor grad = values(1, {1, 1, 2}, DType::f32, Device::cuda(0));
  const Tensor indices =
      full({1, 1, 2}, std::int64_t{1} << 40, {.dtype = DType::i64, .device = grad.device()});
  const Value attrs = Value::Map{{"kernel_size", 2}, {"size", Value::list(4)}};
  EXPECT_EQ(call_op("max_pool_backward", {grad, indices}, attrs)[0].to_vector<double>(),
            (std::vector<double>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace mezzo
