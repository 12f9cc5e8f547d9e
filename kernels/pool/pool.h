// Poolings over up to three spatial dims on the device at hand: the largest element of each window with its
// place, the mean of each window, and the gradients of both.
//
// Arrays are dense and either row-major, [outer, i0, i1, i2], or channels-last, [outer, i0, i1, i2, inner];
// of the views only memory and dtype are read. Floating 16-bit values are computed in f32 and rounded once.
// Orders are fixed, so the bits do not depend on device, layout or number of threads.
#pragma once

#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/pool/windows.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Windows over images. Trivially copyable, so that kernels take it by value.
struct Pooling {
  std::int64_t outer = 1, inner = 1;
  Windows windows = {};
  /// The windows share the input out evenly, as far as that goes: window o of n covers [o in / n, (o + 1) in
  /// / n), with the ends rounded outwards. Only the sizes of `windows` count then.
  bool adaptive = false;
};

/// Poolings by means: without dilation.
struct AveragePooling : Pooling {
  bool count_padding = true;
  std::int64_t divisor = 0;  ///< of each sum; 0: the number of places in its window
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

// --- fold: the sums of columns of blocks as images. Arrays are contiguous: images [planes, i0, i1, i2],
// columns [planes, k0, k1, k2, o0, o1, o2]; of the views only memory and dtype are read.

/// x[p, i] = the sum of columns[p, k, o] over all k, in their order, that have a window o with i = o * stride
/// - padding + k * dilation. Floating dtypes, computed in f32 (f64 where one is f64) and rounded once.
MEZZO_KERNEL(fold, void(std::int64_t planes, const Windows& windows, const View& x, const View& columns));

}  // namespace mezzo::kernels
