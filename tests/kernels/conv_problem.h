// A convolution of given sizes with random numbers in its arrays, for the tests of the CPU's convolutions.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "kernels/naive_conv.h"
#include "mezzo/kernels/conv/conv.h"

namespace mezzo::kernels::test {

/// Which array a map computes: the numbers of naive_conv().
enum Map { kX, kY, kWeight };
inline constexpr std::array kMaps{kX, kY, kWeight};

/// Windows as many as fit with `behind` zeros at the end of each dim.
inline ConvShape make_shape(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t groups,
                            const Windows::Sizes& input, const Windows::Sizes& kernel,
                            const Windows::Sizes& stride = {1, 1, 1}, const Windows::Sizes& front = {0, 0, 0},
                            const Windows::Sizes& behind = {0, 0, 0},
                            const Windows::Sizes& dilation = {1, 1, 1}) {
  ConvShape shape{batch, in, out, groups, false, {}};
  shape.windows = {input, kernel, {}, stride, front, dilation};
  for (std::size_t d = 0; d < Windows::kDims; ++d) {
    const std::int64_t reach = dilation[d] * (kernel[d] - 1) + 1;
    shape.windows.output[d] = (input[d] + front[d] + behind[d] - reach) / stride[d] + 1;
  }
  return shape;
}

inline std::string describe(const ConvShape& s, Map map) {
  const auto list = [](const Windows::Sizes& sizes) {
    return "{" + std::to_string(sizes[0]) + " " + std::to_string(sizes[1]) + " " + std::to_string(sizes[2]) +
           "}";
  };
  return "map " + std::to_string(map) + " batch " + std::to_string(s.batch) + " channels " +
         std::to_string(s.in_channels) + " -> " + std::to_string(s.out_channels) + " in " +
         std::to_string(s.groups) + (s.channels_last ? " channels-last" : "") + " kernel " +
         list(s.windows.kernel) + " input " + list(s.windows.input) + " stride " + list(s.windows.stride);
}

/// The arrays of a convolution, with values in them.
struct Problem {
  ConvShape shape;
  ConvArray x, y, weight, bias;

  Problem(const ConvShape& s, DType x_dtype, DType y_dtype, DType weight_dtype, DType bias_dtype)
      : shape(s),
        x(x_dtype, {s.batch, s.in_channels, s.windows.input[0], s.windows.input[1], s.windows.input[2]},
          s.channels_last),
        y(y_dtype, {s.batch, s.out_channels, s.windows.output[0], s.windows.output[1], s.windows.output[2]},
          s.channels_last),
        weight(weight_dtype, {s.out_channels, s.in_channels / s.groups, s.windows.kernel[0],
                              s.windows.kernel[1], s.windows.kernel[2]}),
        bias(bias_dtype, {1, std::max(s.in_channels, s.out_channels), 1, 1, 1}) {
    x.randomize(1), y.randomize(2), weight.randomize(3), bias.randomize(4);
  }
  Problem(const ConvShape& s, DType dtype) : Problem(s, dtype, dtype, dtype, dtype) {}

  ConvArray& result(Map map) { return map == kX ? x : map == kY ? y : weight; }
  /// Computes one of the arrays from the others.
  void run(Map map, bool with_bias) {
    void* const b = with_bias ? bias.view().data : nullptr;
    if (map == kX) cpu::conv_input_gradient(shape, x.view(), y.view(), weight.view(), b);
    if (map == kY) cpu::conv_forward(shape, y.view(), x.view(), weight.view(), b);
    if (map == kWeight) cpu::conv_weight_gradient(shape, weight.view(), x.view(), y.view());
  }
};

}  // namespace mezzo::kernels::test
