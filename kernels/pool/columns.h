// The sums of columns of blocks as images, on the device at hand: fold.
//
// Arrays are contiguous: images [planes, i0, i1, i2], columns [planes, k0, k1, k2, o0, o1, o2]; of the views
// only memory and dtype are read.
#pragma once

#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/pool/windows.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// x[p, i] = the sum of columns[p, k, o] over all k, in their order, that have a window o with i = o * stride
/// - padding + k * dilation. Floating dtypes, computed in f32 (f64 where one is f64) and rounded once.
MEZZO_KERNEL(fold, void(std::int64_t planes, const Windows& windows, const View& x, const View& columns));

}  // namespace mezzo::kernels
