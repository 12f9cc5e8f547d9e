// The kernels of gradient clipping: the norm of many tensors taken as one vector, and factors and bounds
// applied to all of them. A CUDA device is given as many of them at a time as fit into a kernel's arguments.
#pragma once

#include <span>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// total = the p-norm of all elements of `tensors` together, p not 0: (sum |x|^p)^(1/p), the largest |x| for
/// infinity, the least for -infinity; a NaN makes it NaN. Accumulated in f64 in an order that depends on the
/// sizes only, and rounded once. Tensors are floating, of any layout and dtype, all on `device`; `total` is
/// one f32 or f64 there. Without elements it is what the sum of nothing gives.
MEZZO_KERNEL(total_norm, void(std::span<const View> tensors, double p, const View& total));

/// Every element times min(1, max_norm / (total + 1e-6)), a NaN kept; the factor is computed in the dtype of
/// `total` (one f32 or f64 on the device), the product in f32 (f64 for f64) and rounded once. With a factor
/// of 1 nothing is written. No two elements may share memory.
MEZZO_KERNEL(scale_to_norm, void(std::span<const View> tensors, double max_norm, const View& total));

/// Every element limited to [-limit, limit]; NaN stays.
MEZZO_KERNEL(limit_values, void(std::span<const View> tensors, double limit));

}  // namespace mezzo::kernels
