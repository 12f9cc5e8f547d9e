// Channels-last tensors on the device: normalizations in pieces of columns against the CPU, a block of a
// network in which nothing but the input is converted, and copies between devices that keep strides.
#include <gtest/gtest.h>

#include <algorithm>

#include "mezzo/tests/cuda/twin.h"
#include "mezzo/tests/ops/channels_last_block.h"

namespace mezzo {
namespace {

using namespace twin;

using CudaChannelsLast = CudaTwin;

constexpr auto kLast = MemoryFormat::channels_last;

using Norm = std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>;

/// Result and gradients of a norm of a channels-last x, whose mean is far from 0.
void expect_same_norm(const Shape& shape, DType dtype, const Norm& norm) {
  SCOPED_TRACE(::testing::Message() << to_string(shape) << " " << to_string(dtype));
  const auto terms = static_cast<double>(layout::numel(shape) / shape[1]);
  expect_same([&](Device device, Trace& trace) {
    const Tensor x = (values(1, shape, dtype, device) + 30.0).to(dtype).to(kLast).detach();
    x.requires_grad_();
    const DType parameter = dtype == DType::f64 ? dtype : DType::f32;
    const Tensor weight = leaf(2, {shape[1]}, parameter, device),
                 bias = leaf(3, {shape[1]}, parameter, device);
    const Tensor y = norm(x, weight, bias);
    EXPECT_TRUE(y.is_contiguous(kLast));
    trace.add("result", y, 128);
    sum(y * values(4, shape, dtype, device)).backward();
    EXPECT_TRUE(x.grad().is_contiguous(kLast));
    trace.add("gradient of x", x.grad(), 256);
    trace.add("gradient of weight", weight.grad(), 128 * terms);
    trace.add("gradient of bias", bias.grad(), 4 * terms);
  });
}

Tensor batch(const Tensor& x, const Tensor& w, const Tensor& b) { return batch_norm(x, {}, {}, w, b, true); }
Norm groups(std::int64_t count) {
  return [count](const Tensor& x, const Tensor& w, const Tensor& b) { return group_norm(x, count, w, b); };
}

TEST_F(CudaChannelsLast, NormsInPiecesOfColumns) {
  for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
    expect_same_norm({3, 6, 7, 5}, dtype, batch);
    expect_same_norm({2, 40, 8, 16}, dtype, batch);  // a thread per piece, several pieces
    expect_same_norm({1, 33, 131}, dtype, batch);    // a prime: one piece per column
    expect_same_norm({2, 1, 9, 4}, dtype, batch);    // one channel
    expect_same_norm({2, 36, 4, 6, 8}, dtype, groups(3));
    expect_same_norm({3, 8, 1, 1}, dtype, groups(2));  // one place
    expect_same_norm({2, 34, 70}, dtype, groups(34));
    expect_same_norm({2, 6, 130}, dtype, groups(1));
  }
}

// Of whole packs of channels a thread has four, and eight places at a time.
TEST_F(CudaChannelsLast, NormsOfWholePacksOfChannels) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::int64_t length : {1, 7, 8, 9, 131, 192}) expect_same_norm({2, 4, length}, dtype, batch);
    expect_same_norm({3, 12, 130}, dtype, groups(2));
  }
}
TEST_F(CudaChannelsLast, NormsOfValuesWhoseSquaresLeaveF32) {
  expect_same([](Device device, Trace& trace) {
    const Tensor x = (values(1, {2, 8, 9, 7}, DType::f32, device) * 1e37).to(kLast).detach();
    trace.add("result", batch_norm(x, {}, {}, {}, {}, true), 4);
  });
}
// Columns whose begin, or what was seen so far, says nothing about the mean of what comes: moments around it
// must not lose the digits of a small variance, nor those of a large one.
TEST_F(CudaChannelsLast, MomentsOfColumnsThatChange) {
  expect_same([](Device device, Trace& trace) {
    for (const std::int64_t length : {9, 64, 65, 130, 700}) {
      const Tensor x = values(1, {1, 4, length}, DType::f32, device).detach();
      const auto column = [&](std::int64_t channel, std::int64_t begin, std::int64_t end) {
        return narrow(select(select(x, 0, 0), 0, channel), 0, begin, end - begin);
      };
      column(0, 0, 8).fill_(0.0);  // the first step of eight
      column(0, 8, length).add_(1000.0);
      column(1, 0, 1).fill_(1e4);  // an outlier
      for (std::int64_t begin = 0; begin < length; begin += 64)
        column(2, begin, std::min(begin + 64, length)).add_(begin % 128 == 0 ? 3000.0 : -3000.0);
      const Tensor mean = zeros({4}, {.device = device}), variance = zeros({4}, {.device = device});
      const Tensor y = batch_norm(x.to(kLast), mean, variance, {}, {}, true, 1.0);
      trace.add("mean", mean, 300);  // the least of the deviations that are not plain
      trace.add("variance", variance, 0);
      trace.add("result", y, 4);
    }
  });
}
TEST_F(CudaChannelsLast, BitsOfNormsDoNotDependOnAlignment) {
  const Device device = Device::cuda(0);
  for (const DType dtype : {DType::f32, DType::f16}) {
    const auto run = [&](std::int64_t offset) {
      const auto placed = [&](std::uint64_t seed) {
        const Tensor room = zeros({2 * 9 * 15 * 8 + offset}, {.dtype = dtype, .device = device});
        const Tensor x =
            permute(reshape(narrow(room, 0, offset, 2 * 9 * 15 * 8), {2, 9, 15, 8}), {0, 3, 1, 2});
        return x.copy_(values(seed, {2, 8, 9, 15}, dtype, device)).detach();
      };
      const Tensor x = placed(1).requires_grad_(), y = batch_norm(x, {}, {}, {}, {}, true);
      y.backward(placed(2), {});
      return std::pair{y.detach().to_vector<float>(), x.grad().to_vector<float>()};
    };
    EXPECT_EQ(run(0), run(1)) << to_string(dtype);
  }
}

TEST_F(CudaChannelsLast, GivenAndRunningStatistics) {
  expect_same([](Device device, Trace& trace) {
    for (const bool training : {true, false}) {
      for (const bool instance : {true, false}) {
        const Tensor x = values(1, {4, 6, 5, 6}, DType::f32, device).to(kLast).detach();
        x.requires_grad_();
        const Tensor mean = values(3, {6}, DType::f32, device);
        const Tensor variance = values(4, {6}, DType::f32, device) + 2.0;
        const Tensor y = instance ? instance_norm(x, mean, variance, {}, {}, training)
                                  : batch_norm(x, mean, variance, {}, {}, training);
        trace.add("result", y, 4);
        trace.add("running mean", mean);
        trace.add("running variance", variance);
        sum(y * y).backward();
        trace.add("gradient of x", x.grad(), 16);
      }
    }
  });
}

TEST_F(CudaChannelsLast, IsConvertedOnceForABlock) {
  test::expect_no_conversion(Device::cuda(0), DType::f32, 2e-3);
  test::expect_no_conversion(Device::cuda(0), DType::f64, 1e-11);
}

TEST_F(CudaChannelsLast, IsNotConvertedInsideOfOps) { test::expect_no_hidden_copies(Device::cuda(0)); }

TEST_F(CudaChannelsLast, IsKeptByCopiesBetweenDevices) {
  const Tensor x = values(1, {2, 3, 4, 5}, DType::f32, Device::cpu()).to(kLast);
  const Tensor there = x.to(Device::cuda(0));
  EXPECT_EQ(there.strides(), x.strides());
  EXPECT_EQ(there.to_vector<float>(), x.to_vector<float>());
  const Tensor back = there.to(Device::cpu());
  EXPECT_EQ(back.strides(), x.strides());
  EXPECT_EQ(back.to_vector<float>(), x.to_vector<float>());
  // A slice is made dense on the way.
  const Tensor part = narrow(x, 1, 1, 2).to(Device::cuda(0));
  EXPECT_TRUE(part.is_contiguous(kLast));
  EXPECT_EQ(part.to_vector<float>(), narrow(x, 1, 1, 2).to_vector<float>());
}

}  // namespace
}  // namespace mezzo
