// Where a convolution's elements lie, for its kernels: images in either order of memory, and which positions
// of an input and which windows meet. All of it is counted in a type Index: std::int32_t where
// has_narrow_places says so, whose divisions are products (kernels/math/quotient.h), else std::int64_t. So an
// f32 product of a direct convolution takes 17.5 instructions forward, 29 in the input's gradient and 64 in
// the weight's, where 64-bit divisions and a choice of dtypes per load took 76, 115 and 220.
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

template <class Index>
struct ImageElement {
  Index sample, channel, place;
};
/// From the index of an element, in the order of memory, of images of these sizes.
template <class Index>
class ImageOrder {
 public:
  ImageOrder(std::int64_t channels, std::int64_t places, bool channels_last)
      : inner_(static_cast<Index>(channels_last ? channels : places)),
        outer_(static_cast<Index>(channels_last ? places : channels)),
        by_inner_(inner_),
        by_outer_(outer_),
        channels_last_(channels_last) {}
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE ImageElement<Index> element(Index index) const {
    const Index rest = by_inner_(index), in_inner = index - rest * inner_;
    const Index sample = by_outer_(rest), in_outer = rest - sample * outer_;
    return {sample, channels_last_ ? in_inner : in_outer, channels_last_ ? in_outer : in_inner};
  }

 private:
  Index inner_, outer_;
  DivisorOf<Index> by_inner_, by_outer_;
  bool channels_last_;
};

/// The position of a place along each dim.
template <class Index>
struct Position {
  Index at[Windows::kDims];
};
/// Sizes of an input, of a kernel or of what windows there are.
template <class Index>
struct PlaceGrid {
  explicit PlaceGrid(const Windows::Sizes& sizes) : by_plane(sizes[1]), by_row(sizes[2]) {
    for (std::size_t d = 0; d < Windows::kDims; ++d) size[d] = static_cast<Index>(sizes[d]);
  }
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Position<Index> position(Index place) const {
    const Index rest = by_row(place), first = by_plane(rest);
    return {{first, rest - first * size[1], place - rest * size[2]}};
  }
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Index place(Index a, Index b, Index c) const {
    return (a * size[1] + b) * size[2] + c;
  }
  [[nodiscard]] MEZZO_HD Index count() const { return size[0] * size[1] * size[2]; }

  Index size[Windows::kDims];
  DivisorOf<Index> by_plane, by_row;
};

/// Windows as kernels take them.
template <class Index>
struct WindowPlaces {
  explicit WindowPlaces(const Windows& windows)
      : input(windows.input), kernel(windows.kernel), output(windows.output) {
    for (std::size_t d = 0; d < Windows::kDims; ++d) {
      stride[d] = static_cast<Index>(windows.stride[d]);
      padding[d] = static_cast<Index>(windows.padding[d]);
      dilation[d] = static_cast<Index>(windows.dilation[d]);
      by_stride[d] = DivisorOf<Index>(windows.stride[d]);
    }
  }

  /// Calls f(k, place) for every position k of the kernel in the window at `t`, in order, with the place of
  /// the input that it covers, or -1 in the padding.
  template <class F>
  __device__ MEZZO_ALWAYS_INLINE void for_each_covered(const Position<Index>& t, const F& f) const {
    Index k = 0;
    for (Index k0 = 0; k0 < kernel.size[0]; ++k0) {
      const Index p0 = covered(0, t.at[0], k0);
      for (Index k1 = 0; k1 < kernel.size[1]; ++k1) {
        const Index p1 = covered(1, t.at[1], k1);
        const bool row = p0 >= 0 && p1 >= 0;
        for (Index k2 = 0; k2 < kernel.size[2]; ++k2) {
          const Index p2 = covered(2, t.at[2], k2);
          f(k++, row && p2 >= 0 ? input.place(p0, p1, p2) : Index{-1});
        }
      }
    }
  }

  /// Calls f(k, t) for every window t that covers position `p` of the input, with its kernel's position k
  /// there, in the order of k.
  template <class F>
  __device__ MEZZO_ALWAYS_INLINE void for_each_cover(const Position<Index>& p, const F& f) const {
    for (Index k0 = 0; k0 < kernel.size[0]; ++k0) {
      const Index t0 = window_over(0, p.at[0], k0);
      if (t0 < 0) continue;
      for (Index k1 = 0; k1 < kernel.size[1]; ++k1) {
        const Index t1 = window_over(1, p.at[1], k1);
        if (t1 < 0) continue;
        for (Index k2 = 0; k2 < kernel.size[2]; ++k2) {
          const Index t2 = window_over(2, p.at[2], k2);
          if (t2 >= 0) f(kernel.place(k0, k1, k2), output.place(t0, t1, t2));
        }
      }
    }
  }

  PlaceGrid<Index> input, kernel, output;
  Index stride[Windows::kDims], padding[Windows::kDims], dilation[Windows::kDims];

 private:
  /// The position of the input that position k of the kernel covers in window `t`, or -1 in the padding.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Index covered(std::size_t d, Index t, Index k) const {
    const Index position = t * stride[d] - padding[d] + k * dilation[d];
    return position < input.size[d] ? position : Index{-1};
  }
  /// The window along a dim whose kernel position k covers `position`, or -1.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Index window_over(std::size_t d, Index position,
                                                                 Index k) const {
    const Index start = position + padding[d] - k * dilation[d];
    if (start < 0) return -1;
    const Index window = by_stride[d](start);
    return window * stride[d] == start && window < output.size[d] ? window : Index{-1};
  }

  DivisorOf<Index> by_stride[Windows::kDims];
};

/// Whether std::int32_t counts the elements of all arrays, of columns' places and channels, and positions
/// with what padding lies around them.
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
