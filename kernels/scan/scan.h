// The kernels of the cumulative ops: one linear recurrence along a dim, of which running sums, running
// products and the gradients of both are cases, the logarithm of a running sum of exponentials, and running
// extrema.
#pragma once

#include <cstddef>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// h_i = scale_i h_(i-1) + add_i, with `initial` before the first element. Views in the result's shape.
struct Recurrence {
  const View* scale = nullptr;  ///< nullptr: 1 everywhere
  const View* add = nullptr;    ///< nullptr: 0 everywhere; not both
  double initial = 0;
  bool reverse = false;  ///< from the last element to the first
};

/// out = the recurrence along `dim`. Elements are read in `compute` (any compute type); h is kept in f64, or
/// i64 modulo 2^64, and each result is rounded once. Any strides.
MEZZO_KERNEL(scan, void(const View& out, const Recurrence& recurrence, std::size_t dim, DType compute));

/// out_i = log(e^x_0 + ... + e^x_i) along `dim`. Elements are read in `compute` (f32 or f64); the sum's
/// logarithm is kept in f64, and each result is rounded once. Any strides.
MEZZO_KERNEL(log_scan, void(const View& out, const View& x, std::size_t dim, DType compute));

/// out_i = the largest (`least`: smallest) of x_0 .. x_i along `dim`; a NaN stays. Elements are read in
/// `compute` (any compute type). Any strides.
MEZZO_KERNEL(extremum_scan, void(const View& out, const View& x, std::size_t dim, bool least, DType compute));

}  // namespace mezzo::kernels
