// Where a convolution's elements lie, for its kernels: images in either order of memory.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/conv/conv.h"
#include "mezzo/kernels/math/quotient.h"

namespace mezzo::kernels::cuda {

/// How far samples, channels and neighbouring places of an image lie apart. Places are numbered in row-major
/// order over the spatial dims.
template <class Index>
struct ImageStrides {
  Index sample, channel, place;
  ImageStrides(std::int64_t channels, std::int64_t places, bool channels_last)
      : sample(static_cast<Index>(channels * places)),
        channel(static_cast<Index>(channels_last ? 1 : places)),
        place(static_cast<Index>(channels_last ? channels : 1)) {}
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Index at(Index n, Index c, Index p) const {
    return n * sample + c * channel + p * place;
  }
};
/// Of x and of y.
template <class Index>
[[nodiscard]] ImageStrides<Index> input_strides(const ConvShape& shape) {
  return {shape.in_channels, shape.windows.inputs(), shape.channels_last};
}
template <class Index>
[[nodiscard]] ImageStrides<Index> output_strides(const ConvShape& shape) {
  return {shape.out_channels, shape.windows.outputs(), shape.channels_last};
}

struct ImageElement {
  std::int64_t sample, channel, place;
};
/// Of images of these sizes, the element with this number in the order of memory.
struct ImageOrder {
  std::int64_t channels, places;
  bool channels_last;

  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE ImageElement element(std::int64_t number) const {
    const std::int64_t inner = channels_last ? channels : places, outer = channels_last ? places : channels;
    const std::int64_t rest = quotient(number, inner), in_inner = number - rest * inner;
    const std::int64_t sample = quotient(rest, outer), in_outer = rest - sample * outer;
    return {sample, channels_last ? in_inner : in_outer, channels_last ? in_outer : in_inner};
  }
};

/// Whether std::int32_t counts the elements of all arrays, and positions with what padding lies around them.
[[nodiscard]] inline bool has_narrow_places(const ConvShape& shape) {
  constexpr double kMost = 2147483647;
  const Windows& w = shape.windows;
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };  // which cannot overflow
  const double channels = number(std::max(shape.in_channels, shape.out_channels));
  const double places = number(std::max(w.inputs(), w.outputs()));
  bool fits = number(shape.batch) * channels * places <= kMost;
  fits = fits && channels * number(shape.in_channels / shape.groups) * number(w.kernels()) <= kMost;
  for (std::size_t d = 0; d < Windows::kDims; ++d) {
    const double reach = number(w.kernel[d]) * number(w.dilation[d]) + number(w.padding[d]);
    fits = fits && number(std::max(w.input[d], w.stride[d])) + reach <= kMost;
    fits = fits && number(w.output[d]) * number(w.stride[d]) + reach <= kMost;
  }
  return fits;
}

}  // namespace mezzo::kernels::cuda
