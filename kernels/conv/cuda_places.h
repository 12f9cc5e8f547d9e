// Where a convolution's elements lie, for its kernels: images in either order of memory, and which positions
// of an input and which windows meet.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/conv/conv.h"

namespace mezzo::kernels::cuda {

/// How far samples, channels and neighbouring places of an image lie apart. Places are numbered in row-major
/// order over the spatial dims.
struct ImageStrides {
  std::int64_t sample, channel, place;
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t at(std::int64_t n, std::int64_t c,
                                                             std::int64_t p) const {
    return n * sample + c * channel + p * place;
  }
};
[[nodiscard]] inline ImageStrides image_strides(std::int64_t channels, std::int64_t places,
                                                bool channels_last) {
  if (channels_last) return {channels * places, 1, channels};
  return {channels * places, places, 1};
}
/// Of x and of y.
[[nodiscard]] inline ImageStrides input_strides(const ConvShape& shape) {
  return image_strides(shape.in_channels, shape.windows.inputs(), shape.channels_last);
}
[[nodiscard]] inline ImageStrides output_strides(const ConvShape& shape) {
  return image_strides(shape.out_channels, shape.windows.outputs(), shape.channels_last);
}

/// Element `index`, in the order of memory, of images of these sizes.
struct ImageElement {
  std::int64_t sample, channel, place;
  __device__ MEZZO_ALWAYS_INLINE ImageElement(std::int64_t index, std::int64_t channels, std::int64_t places,
                                              bool channels_last) {
    const std::int64_t inner = channels_last ? channels : places, outer = channels_last ? places : channels;
    const std::int64_t rest = index / inner, in_inner = index - rest * inner;
    sample = rest / outer;
    const std::int64_t in_outer = rest - sample * outer;
    channel = channels_last ? in_inner : in_outer;
    place = channels_last ? in_outer : in_inner;
  }
};

/// The position of a place along each dim.
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Windows::Sizes positions_of(std::int64_t place,
                                                                         const Windows::Sizes& sizes) {
  const std::int64_t rest = place / sizes[2], first = rest / sizes[1];
  return {first, rest - first * sizes[1], place - rest * sizes[2]};
}

/// Calls f(k, place) for every position k of the kernel in the window at `t`, in order, with the place of the
/// input that it covers, or -1 in the padding.
template <class F>
__device__ MEZZO_ALWAYS_INLINE void for_each_covered(const Windows& windows, const Windows::Sizes& t,
                                                     const F& f) {
  std::int64_t k = 0;
  for (std::int64_t k0 = 0; k0 < windows.kernel[0]; ++k0) {
    const std::int64_t p0 = windows.position(0, t[0], k0);
    for (std::int64_t k1 = 0; k1 < windows.kernel[1]; ++k1) {
      const std::int64_t p1 = windows.position(1, t[1], k1);
      const bool row = windows.inside(0, p0) && windows.inside(1, p1);
      for (std::int64_t k2 = 0; k2 < windows.kernel[2]; ++k2) {
        const std::int64_t p2 = windows.position(2, t[2], k2);
        const bool inside = row && windows.inside(2, p2);
        f(k++, inside ? (p0 * windows.input[1] + p1) * windows.input[2] + p2 : -1);
      }
    }
  }
}

/// The window along a dim whose kernel position k covers `position`, or -1.
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::int64_t window_over(const Windows& windows, std::size_t dim,
                                                                      std::int64_t position, std::int64_t k) {
  const std::int64_t start = position + windows.padding[dim] - k * windows.dilation[dim];
  if (start < 0) return -1;
  const std::int64_t window = start / windows.stride[dim];
  return window * windows.stride[dim] == start && window < windows.output[dim] ? window : -1;
}

/// Calls f(k, t) for every window t that covers position `p` of the input, with its kernel's position k
/// there, in the order of k.
template <class F>
__device__ MEZZO_ALWAYS_INLINE void for_each_cover(const Windows& windows, const Windows::Sizes& p,
                                                   const F& f) {
  for (std::int64_t k0 = 0; k0 < windows.kernel[0]; ++k0) {
    const std::int64_t t0 = window_over(windows, 0, p[0], k0);
    if (t0 < 0) continue;
    for (std::int64_t k1 = 0; k1 < windows.kernel[1]; ++k1) {
      const std::int64_t t1 = window_over(windows, 1, p[1], k1);
      if (t1 < 0) continue;
      for (std::int64_t k2 = 0; k2 < windows.kernel[2]; ++k2) {
        const std::int64_t t2 = window_over(windows, 2, p[2], k2);
        if (t2 < 0) continue;
        f((k0 * windows.kernel[1] + k1) * windows.kernel[2] + k2,
          (t0 * windows.output[1] + t1) * windows.output[2] + t2);
      }
    }
  }
}

}  // namespace mezzo::kernels::cuda
