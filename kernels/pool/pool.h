// Poolings over up to three spatial dims on the device at hand: the largest element of each window with its
// place, the mean of each window, and the gradients of both.
//
// Arrays are dense and either row-major, [outer, i0, i1, i2], or channels-last, [outer, i0, i1, i2, inner];
// of the views only memory and dtype are read. Floating 16-bit values are computed in f32 and rounded once.
// Orders are fixed, so the bits do not depend on device, layout or number of threads.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/math/quotient.h"
#include "mezzo/kernels/pool/windows.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// [first, last); empty where last <= first.
struct PlaceRange {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t count() const { return last - first; }
};

/// Windows over images. Trivially copyable, so that kernels take it by value.
struct Pooling {
  std::int64_t outer = 1, inner = 1;
  Windows windows = {};
  /// The windows share the input out evenly, as far as that goes: window o of n covers [o in / n, (o + 1) in
  /// / n), with the ends rounded outwards. Only the sizes of `windows` count then.
  bool adaptive = false;

  /// The places of the input that window o covers along a dim: the first and from there every `dilation` of
  /// them. At least one.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE PlaceRange places(std::size_t dim, std::int64_t o) const {
    const std::int64_t in = windows.input[dim], out = windows.output[dim];
    if (adaptive) return {quotient(o * in, out), quotient((o + 1) * in + out - 1, out)};
    const std::int64_t step = windows.dilation[dim], start = windows.position(dim, o, 0);
    const std::int64_t end = windows.position(dim, o, windows.kernel[dim] - 1) + 1;
    return {start < 0 ? start + quotient(step - 1 - start, step) * step : start, end < in ? end : in};
  }
  /// The windows that cover place i of the input along a dim. Of dilated windows the range also has those
  /// between them that step over the place. May be empty.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE PlaceRange covering(std::size_t dim, std::int64_t i) const {
    const std::int64_t in = windows.input[dim], out = windows.output[dim];
    if (adaptive) return {quotient(i * out, in), quotient((i + 1) * out + in - 1, in)};
    const std::int64_t step = windows.stride[dim], newest = quotient(i + windows.padding[dim], step) + 1;
    const std::int64_t beyond = i + windows.padding[dim] - (windows.kernel[dim] - 1) * windows.dilation[dim];
    return {beyond <= 0 ? 0 : quotient(beyond + step - 1, step), newest < out ? newest : out};
  }
};

/// Poolings by means: without dilation.
struct AveragePooling : Pooling {
  bool count_padding = true;
  std::int64_t divisor = 0;  ///< of each sum; 0: the number of places in its window

  /// How many places of window o count along a dim: with padding those in it too, but none beyond it.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t count(std::size_t dim, std::int64_t o) const {
    if (divisor != 0) return 1;
    if (adaptive || !count_padding) return places(dim, o).count();
    const std::int64_t start = windows.position(dim, o, 0), end = start + windows.kernel[dim];
    const std::int64_t limit = windows.input[dim] + windows.padding[dim];
    return (end < limit ? end : limit) - start;
  }
  /// What is left of the divisor besides the counts of all dims.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t factor() const {
    return divisor != 0 ? divisor : 1;
  }
};

/// y = the largest element of each window, the first of equal ones, or its last NaN; `indices` = its place in
/// the image, in row-major order. One dtype; any but bool.
MEZZO_KERNEL(max_pool, void(const Pooling& pooling, const View& y, std::int64_t* indices, const View& x));
/// dx = for each place the sum of `grad` over the windows whose index it is, in row-major order of windows.
/// Indices are those that max_pool gives for the same windows. Returns where an index stands (in memory) that
/// is not in the image, or -1; on a CUDA device such an index is no place's and the result always -1.
MEZZO_KERNEL(max_pool_backward, std::int64_t(const Pooling& pooling, const View& dx, const View& grad,
                                             const std::int64_t* indices));

/// y = the sum over each window, by its columns (along the last dim) and then over these, divided by the
/// product of its counts and the factor. Floating dtypes.
MEZZO_KERNEL(average_pool, void(const AveragePooling& pooling, const View& y, const View& x));
/// dx = for each place the sum of `grad` divided by that, over the windows that cover it, in the same order.
MEZZO_KERNEL(average_pool_backward, void(const AveragePooling& pooling, const View& dx, const View& grad));

}  // namespace mezzo::kernels
