// Depthwise convolutions by strips: all maps as on the CPU, at every edge of strips and images.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "mezzo/kernels/conv/conv.h"
#include "mezzo/kernels/conv/cuda_algorithms.h"
#include "mezzo/ops/forward.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;
using kernels::ConvShape;
using kernels::View;
using kernels::Windows;

class CudaConvStrips : public CudaTwin {};

struct Depthwise {
  std::int64_t channels, multiplier, rows, columns, kernel, stride, padding;
};

ConvShape shape_of(const Depthwise& d, bool channels_last) {
  const auto outputs = [&](std::int64_t n) { return (n + 2 * d.padding - d.kernel) / d.stride + 1; };
  return {2,
          d.channels,
          d.channels * d.multiplier,
          d.channels,
          channels_last,
          {{1, d.rows, d.columns},
           {1, d.kernel, d.kernel},
           {1, outputs(d.rows), outputs(d.columns)},
           {1, d.stride, d.stride},
           {0, d.padding, d.padding},
           {1, 1, 1}}};
}

// Strips have eight rows: fewer, as many, one more; one column; padding of none, of less than half the kernel
// and of more than fits; a channel multiplier.
const std::vector<Depthwise> kCases = {{3, 1, 8, 5, 3, 1, 1},  {2, 1, 9, 1, 3, 1, 1}, {2, 1, 3, 7, 3, 1, 0},
                                       {2, 3, 17, 4, 3, 1, 2}, {3, 1, 9, 6, 5, 1, 2}, {2, 2, 5, 5, 5, 1, 0},
                                       {2, 1, 10, 9, 7, 1, 3}, {2, 1, 7, 8, 7, 1, 1}, {3, 1, 16, 7, 3, 2, 1},
                                       {2, 2, 19, 6, 3, 2, 0}, {40, 1, 4, 4, 3, 1, 1}};

/// Arrays of a shape; `seed` 0 fills them with NaN, for results.
struct Arrays {
  Arrays(const ConvShape& s, DType dtype, Device device, std::uint64_t seed)
      : x(image(seed, s.in_channels, s.windows.input, s.channels_last, dtype, device)),
        y(image(seed + 1, s.out_channels, s.windows.output, s.channels_last, dtype, device)),
        weight(values(seed + 2, {s.out_channels, 1, 1, s.windows.kernel[1], s.windows.kernel[2]}, dtype,
                      device)) {
    if (seed != 0) return;
    for (Tensor* tensor : {&x, &y, &weight}) tensor->fill_(kNan);
  }
  static Tensor image(std::uint64_t seed, std::int64_t channels, const Windows::Sizes& sizes,
                      bool channels_last, DType dtype, Device device) {
    const Tensor plain = values(seed, {2, channels, sizes[0], sizes[1], sizes[2]}, dtype, device);
    return channels_last ? plain.contiguous(MemoryFormat::channels_last) : plain;
  }
  [[nodiscard]] View x_view() const { return ops::view_of(x); }
  [[nodiscard]] View y_view() const { return ops::view_of(y); }
  [[nodiscard]] View weight_view() const { return ops::view_of(weight); }
  Tensor x, y, weight;
};

/// Forward and input gradient of `given`, with the bias.
Arrays results(const ConvShape& s, const Arrays& given, const Tensor& bias, Device device) {
  Arrays out(s, given.x.dtype(), device, 0);
  kernels::conv_forward(device, s, out.y_view(), given.x_view(), given.weight_view(), bias.impl().data());
  kernels::conv_input_gradient(device, s, out.x_view(), given.y_view(), given.weight_view(), nullptr);
  return out;
}

void expect_as_on_cpu(const Depthwise& d, DType dtype, bool channels_last) {
  SCOPED_TRACE(::testing::Message() << d.channels << " channels, " << d.rows << " x " << d.columns
                                    << ", kernel " << d.kernel << ", stride " << d.stride << ", "
                                    << to_string(dtype) << (channels_last ? ", channels last" : ""));
  // Roundings of sums of so many terms below 1, in another order.
  const auto terms = static_cast<double>(d.kernel * d.kernel * d.multiplier);
  expect_same([&](Device device, Trace& trace) {
    const ConvShape s = shape_of(d, channels_last);
    const Arrays given(s, dtype, device, 5);
    const Tensor bias = values(9, {s.out_channels}, dtype, device);
    if (device.is_cuda()) {
      Arrays unused(s, dtype, device, 0);
      EXPECT_TRUE(kernels::cuda::strips_forward(device, s, unused.y_view(), given.x_view(),
                                                given.weight_view(), nullptr));
    }
    const Arrays out = results(s, given, bias, device);
    trace.add("y", out.y, terms), trace.add("x", out.x, terms);
  });
}

TEST_F(CudaConvStrips, AreAsOnTheCpu) {
  for (const Depthwise& d : kCases) {
    for (const bool channels_last : {false, true}) expect_as_on_cpu(d, DType::f32, channels_last);
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::size_t which : {0U, 4U, 6U, 8U}) {
      for (const bool channels_last : {false, true}) expect_as_on_cpu(kCases[which], dtype, channels_last);
    }
  }
}

// A weight that is not finite meets no element of the padding.
TEST_F(CudaConvStrips, PaddingIsNotMultiplied) {
  expect_same([](Device device, Trace& trace) {
    const ConvShape s = shape_of({2, 1, 9, 4, 3, 1, 1}, false);
    const Arrays given(s, DType::f32, device, 5);
    select(given.weight.view({6, 3}), 0, 0).fill_(std::numeric_limits<double>::infinity());
    const Arrays out = results(s, given, values(9, {2}, DType::f32, device), device);
    trace.add("y", out.y, 9), trace.add("x", out.x, 9);  // sums of nine terms below 1
  });
}

TEST_F(CudaConvStrips, WeightGradientsAreAsOnTheCpu) {
  const auto expect_gradient = [](const Depthwise& d, DType dtype, bool channels_last) {
    // Roundings of a sum of terms below 1, in another order: as far as a random walk of so many steps, twice.
    const double spread = 2 * std::sqrt(static_cast<double>(2 * d.rows * d.columns));
    SCOPED_TRACE(::testing::Message() << d.rows << " x " << d.columns << ", kernel " << d.kernel);
    expect_same([&](Device device, Trace& trace) {
      const ConvShape s = shape_of(d, channels_last);
      const Arrays given(s, dtype, device, 5), out(s, dtype, device, 0);
      if (device.is_cuda()) {
        EXPECT_EQ(kernels::cuda::strips_weight_gradient(device, s, out.weight_view(), given.x_view(),
                                                        given.y_view()),
                  !channels_last);
      }
      kernels::conv_weight_gradient(device, s, out.weight_view(), given.x_view(), given.y_view());
      trace.add("weight", out.weight, spread);
    });
  };
  for (const Depthwise& d : kCases) expect_gradient(d, DType::f32, false);
  for (const DType dtype : {DType::f16, DType::bf16}) expect_gradient(kCases[4], dtype, false);
  expect_gradient(kCases[0], DType::f32, true);
  expect_gradient({3, 1, 40, 41, 3, 1, 1}, DType::f32, false);  // more strips than threads
}

// What has no kernel here goes the other ways.
TEST_F(CudaConvStrips, RefusesOtherShapes) {
  const Device device = Device::cuda(0);
  const auto takes = [&](ConvShape s, DType x = DType::f32, DType weight = DType::f32) {
    const Tensor image = zeros({2, 8, 1, 16, 16}, {.dtype = x, .device = device});
    const Tensor w = zeros({64, 1, 1, 8, 8}, {.dtype = weight, .device = device});
    const Tensor y = zeros({2, 16, 1, 16, 16}, {.dtype = x, .device = device});
    return kernels::cuda::strips_forward(device, s, ops::view_of(y), ops::view_of(image), ops::view_of(w),
                                         nullptr);
  };
  const ConvShape good = shape_of({2, 1, 8, 8, 3, 1, 1}, false);
  EXPECT_TRUE(takes(good));
  EXPECT_FALSE(takes(good, DType::f64, DType::f64));
  EXPECT_FALSE(takes(good, DType::f16, DType::f32));
  EXPECT_FALSE(takes(shape_of({2, 1, 8, 8, 4, 1, 1}, false)));
  EXPECT_FALSE(takes(shape_of({2, 1, 8, 8, 5, 2, 2}, false)));
  ConvShape other = good;
  other.groups = 1;
  EXPECT_FALSE(takes(other));
  other = good, other.windows.dilation[2] = 2;
  EXPECT_FALSE(takes(other));
  other = good, other.windows.stride[1] = 2;
  EXPECT_FALSE(takes(other));
}

}  // namespace
}  // namespace mezzo
