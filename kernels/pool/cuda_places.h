// Where the elements of poolings lie, for their kernels: the windows of kernels/pool/pool.h counted in a type
// Index: std::int32_t where has_narrow_places says so, whose divisions are products
// (kernels/math/quotient.h), else std::int64_t.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/quotient.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cuda {

/// [first, last); empty where last <= first.
template <class Index>
struct PoolRange {
  Index first, last;
};

/// An element of a dense array of images, by its places.
template <class Index>
struct PoolPlace {
  Index image, at[Windows::kDims], channel;
};

/// The sizes of an array of images, and where its elements lie.
template <class Index>
struct PoolGrid {
  PoolGrid(const Windows::Sizes& sizes, std::int64_t inner)
      : channels(static_cast<Index>(inner)), by_channels(inner) {
    for (std::size_t d = 0; d < Windows::kDims; ++d) {
      size[d] = static_cast<Index>(sizes[d]);
      by_size[d] = DivisorOf<Index>(sizes[d]);
    }
  }
  /// The element whose number, in the order of memory, is `e`.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE PoolPlace<Index> place(Index e) const {
    const Index flat = by_channels(e), row = by_size[2](flat), plane = by_size[1](row),
                image = by_size[0](plane);
    return {
        image, {plane - image * size[0], row - plane * size[1], flat - row * size[2]}, e - flat * channels};
  }
  /// Where row (d, h) of an image begins, counted in places of all images.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Index row(Index image, Index d, Index h) const {
    return ((image * size[0] + d) * size[1] + h) * size[2];
  }
  /// The number of a channel's element at a place of all images.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Index element(Index place, Index channel) const {
    return place * channels + channel;
  }

  Index size[Windows::kDims], channels;
  DivisorOf<Index> by_size[Windows::kDims], by_channels;
};

/// A pooling as kernels take it: input and output, and which places and windows meet.
template <class Index>
struct PoolPlaces {
  explicit PoolPlaces(const Pooling& pooling)
      : input(pooling.windows.input, pooling.inner),
        output(pooling.windows.output, pooling.inner),
        adaptive(pooling.adaptive) {
    const Windows& w = pooling.windows;
    for (std::size_t d = 0; d < Windows::kDims; ++d) {
      stride[d] = static_cast<Index>(w.stride[d]), padding[d] = static_cast<Index>(w.padding[d]);
      reach[d] = static_cast<Index>((w.kernel[d] - 1) * w.dilation[d]);
      step[d] = static_cast<Index>(adaptive ? 1 : w.dilation[d]);
      by_stride[d] = DivisorOf<Index>(w.stride[d]), by_step[d] = DivisorOf<Index>(step[d]);
    }
  }

  /// As Pooling::places: those of window o, `step` apart.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE PoolRange<Index> places(std::size_t d, Index o) const {
    const Index in = input.size[d], out = output.size[d];
    if (adaptive) return {output.by_size[d](o * in), output.by_size[d]((o + 1) * in + out - 1)};
    const Index start = o * stride[d] - padding[d], end = start + reach[d] + 1;
    return {start < 0 ? start + by_step[d](step[d] - 1 - start) * step[d] : start, end < in ? end : in};
  }
  /// As Pooling::covering: the windows that cover place i.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE PoolRange<Index> covering(std::size_t d, Index i) const {
    const Index in = input.size[d], out = output.size[d];
    if (adaptive) return {input.by_size[d](i * out), input.by_size[d]((i + 1) * out + in - 1)};
    const Index newest = by_stride[d](i + padding[d]) + 1, beyond = i + padding[d] - reach[d];
    return {beyond <= 0 ? 0 : by_stride[d](beyond + stride[d] - 1), newest < out ? newest : out};
  }

  PoolGrid<Index> input, output;
  bool adaptive;
  Index stride[Windows::kDims], padding[Windows::kDims];
  Index reach[Windows::kDims];  ///< from the first place of a window to its last
  Index step[Windows::kDims];   ///< between neighbouring places of a window

 private:
  DivisorOf<Index> by_stride[Windows::kDims], by_step[Windows::kDims];
};

/// Whether std::int32_t counts the elements of both arrays, and positions with what padding lies around them.
[[nodiscard]] inline bool has_narrow_places(const Pooling& pooling) {
  constexpr double kMost = 2147483647;
  const Windows& w = pooling.windows;
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };  // which cannot overflow
  const double images = number(pooling.outer) * number(pooling.inner);
  bool fits = images * number(std::max(w.inputs(), w.outputs())) <= kMost;
  for (std::size_t d = 0; d < Windows::kDims; ++d) {
    const double in = number(w.input[d]), out = number(w.output[d]);
    if (pooling.adaptive) {
      fits = fits && (in + 1) * (out + 1) <= kMost;
    } else {
      const double around =
          number(w.kernel[d]) * number(w.dilation[d]) + number(w.padding[d]) + number(w.stride[d]);
      fits = fits && in + around <= kMost && out * number(w.stride[d]) + around <= kMost;
    }
  }
  return fits;
}

}  // namespace mezzo::kernels::cuda
