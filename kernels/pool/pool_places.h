// Which places and windows of a pooling meet, and what sums over windows are divided by, counted in a type
// Index: std::int64_t, or std::int32_t, whose divisions are products (kernels/math/quotient.h). Once for all
// devices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/quotient.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels {

/// [first, last); empty where last <= first.
template <class Index>
struct PoolRange {
  Index first = 0, last = 0;
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Index count() const { return last - first; }
};
using PlaceRange = PoolRange<std::int64_t>;

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
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE PoolPlace<Index> place(Index e) const {
    const Index flat = by_channels(e), row = by_size[2](flat), plane = by_size[1](row),
                image = by_size[0](plane);
    return {
        image, {plane - image * size[0], row - plane * size[1], flat - row * size[2]}, e - flat * channels};
  }
  /// Where row (d, h) of an image begins, counted in places of all images.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Index row(Index image, Index d, Index h) const {
    return ((image * size[0] + d) * size[1] + h) * size[2];
  }
  /// The number of a channel's element at a place of all images.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Index element(Index place, Index channel) const {
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

  /// The places of the input that window o covers along a dim, `step` apart. At least one.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE PoolRange<Index> places(std::size_t d, Index o) const {
    const Index in = input.size[d], out = output.size[d];
    if (adaptive) return {output.by_size[d](o * in), output.by_size[d]((o + 1) * in + out - 1)};
    const Index start = o * stride[d] - padding[d], end = start + reach[d] + 1;
    return {start < 0 ? start + by_step[d](step[d] - 1 - start) * step[d] : start, end < in ? end : in};
  }
  /// The windows that cover place i of the input along a dim. Of dilated windows the range also has those
  /// between them that step over the place. May be empty.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE PoolRange<Index> covering(std::size_t d, Index i) const {
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

/// What sums over windows are divided by.
template <class Index>
struct PoolCounts {
  explicit PoolCounts(const AveragePooling& pooling)
      : factor(pooling.divisor != 0 ? pooling.divisor : 1),
        fixed(pooling.divisor != 0),
        in_places(pooling.adaptive || !pooling.count_padding) {}

  /// How many places of window o count along a dim: with padding those in it too, but none beyond it.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Index along(const PoolPlaces<Index>& pooling, std::size_t d,
                                                         Index o) const {
    if (fixed) return 1;
    if (in_places) return pooling.places(d, o).count();
    const Index start = o * pooling.stride[d] - pooling.padding[d], end = start + pooling.reach[d] + 1;
    const Index limit = pooling.input.size[d] + pooling.padding[d];
    return (end < limit ? end : limit) - start;
  }
  /// The divisor of window (d, h, w).
  template <class T>
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T of(const PoolPlaces<Index>& pooling, Index d, Index h,
                                                  Index w) const {
    const std::int64_t plane = std::int64_t{along(pooling, 0, d)} * along(pooling, 1, h) * factor;
    return static_cast<T>(along(pooling, 2, w)) * static_cast<T>(plane);
  }

  std::int64_t factor;
  bool fixed, in_places;
};

}  // namespace mezzo::kernels
