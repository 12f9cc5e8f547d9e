// Windows over planes: images in two dims, without dilation. What the CPU's largest elements and their
// gradient take the short way for: a group of windows, of neighbours along a row or of channels, at once.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/pool/pool.h"
#include "mezzo/kernels/pool/pool_places.h"

/// The head of a step of each_group: a lambda of kLanes and of the first element, `i`. It is inlined at every
/// call, so that it is compiled for the caller's instruction set.
#define MEZZO_GROUP_STEP(i)                                                                       \
  [&]<int kLanes>(std::integral_constant<int, kLanes> /*lanes*/, [[maybe_unused]] std::int64_t i) \
      __attribute__((always_inline))

namespace mezzo::kernels::cpu::detail {

/// The windows of a plane: one channel of an image, or all `inner` channels, which are neighbours then.
struct PlaneWindows {
  explicit PlaneWindows(const Pooling& pooling)
      : in_h(pooling.windows.input[1]),
        in_w(pooling.windows.input[2]),
        out_h(pooling.windows.output[1]),
        out_w(pooling.windows.output[2]),
        inner(pooling.inner),
        kernel_h(pooling.windows.kernel[1]),
        kernel_w(pooling.windows.kernel[2]),
        stride_h(pooling.windows.stride[1]),
        stride_w(pooling.windows.stride[2]),
        padding_h(pooling.windows.padding[1]),
        padding_w(pooling.windows.padding[2]) {}
  std::int64_t in_h, in_w, out_h, out_w, inner;
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;

  /// Whether a pooling is one of planes.
  [[nodiscard]] static bool fit(const Pooling& pooling) {
    const Windows& windows = pooling.windows;
    return !pooling.adaptive && windows.input[0] == 1 && windows.output[0] == 1 && windows.kernel[0] == 1 &&
           windows.dilation[1] == 1 && windows.dilation[2] == 1 &&
           windows.inputs() <= std::numeric_limits<std::int32_t>::max();
  }
  /// Whether windows are of 2 by 2 places, share none and lie in the input; and whether they are all of it.
  [[nodiscard]] bool in_pairs() const {
    return kernel_w == 2 && stride_w == 2 && padding_w == 0 && 2 * out_w <= in_w && kernel_h == 2 &&
           stride_h == 2 && padding_h == 0 && 2 * out_h <= in_h;
  }
  [[nodiscard]] bool all_in_pairs() const { return in_pairs() && 2 * out_w == in_w && 2 * out_h == in_h; }
  /// The rows of the input under row `o` of the windows, and the places of such a row under window `o`.
  [[nodiscard]] MEZZO_ALWAYS_INLINE PlaceRange rows(std::int64_t o) const {
    const std::int64_t start = o * stride_h - padding_h, end = start + kernel_h;
    return {start < 0 ? 0 : start, end < in_h ? end : in_h};
  }
  [[nodiscard]] MEZZO_ALWAYS_INLINE PlaceRange places(std::int64_t o) const {
    const std::int64_t start = o * stride_w - padding_w, end = start + kernel_w;
    return {start < 0 ? 0 : start, end < in_w ? end : in_w};
  }
};

/// See each_group.
template <int kLanes, class Step>
MEZZO_ALWAYS_INLINE void each_group_of(std::int64_t n, bool beyond, const Step& step) {
  for (std::int64_t i = 0; i < n; i += kLanes)
    step(std::integral_constant<int, kLanes>{}, beyond || i + kLanes < n ? i : n - kLanes);
}

/// step(lanes, first) for groups of `lanes` elements, a constant of at most kMost, that make up [0, n): as
/// wide ones as n has room for, of which the last one overlaps with the one before, so a step may come twice.
/// With `beyond` the last group goes on beyond n instead, so that short rows too fill a vector.
template <int kMost, class Step>
MEZZO_ALWAYS_INLINE void each_group(std::int64_t n, bool beyond, const Step& step) {
  if constexpr (kMost > 16) {
    if (n >= kMost || (beyond && n > 16)) return each_group_of<kMost>(n, beyond, step);
  }
  if (n >= 16 || (beyond && n > 8)) return each_group_of<16>(n, beyond, step);
  if (n >= 8 || (beyond && n > 4)) return each_group_of<8>(n, beyond, step);
  if (n >= 4) return each_group_of<4>(n, beyond, step);
  each_group_of<1>(n, beyond, step);
}

/// A row of places by their distance from the first one of the padding: those at even distances from each
/// other lie together, so that neighbouring windows are neighbours in memory. Position k of the kernel in
/// window o is element o + k / stride of run k % stride.
struct PhasedRow {
  explicit PhasedRow(const PlaneWindows& w)
      : stride(w.stride_w),
        padding(w.padding_w),
        inputs(w.in_w),
        pitch(w.out_w + (w.kernel_w - 1) / w.stride_w + 1) {}
  std::int64_t stride, padding, inputs;
  std::int64_t pitch;  ///< elements of a run

  [[nodiscard]] std::int64_t size() const { return stride * pitch; }
  /// Places `phase`, `phase` + stride, ... of a row: how many there are room for, and where the first goes.
  [[nodiscard]] MEZZO_ALWAYS_INLINE std::int64_t count(std::int64_t phase) const {
    const std::int64_t all = (inputs - phase + stride - 1) / stride,
                       room = pitch - (padding + phase) / stride;
    return all < room ? all : room;
  }
  [[nodiscard]] MEZZO_ALWAYS_INLINE std::int64_t start(std::int64_t phase) const {
    return (padding + phase) % stride * pitch + (padding + phase) / stride;
  }
};

}  // namespace mezzo::kernels::cpu::detail
