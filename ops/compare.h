// Whether two tensors hold the same values, exactly or nearly.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

/// Whether both have one shape and equal elements; a NaN equals nothing. One host read.
/// Dtypes: any two, compared in the promoted one; float8 beside its own dtype only (DTypeError).
/// Source: torch.equal, which asks for one dtype.
[[nodiscard]] bool equal(const Tensor& a, const Tensor& b);
/// |a - b| <= atol + rtol |b| for each element; infinities are close to themselves, NaNs to each other only
/// with `equal_nan`.
/// Shapes: a and b broadcast (ShapeError).
/// Dtypes: any but float8 -> bool; integers are compared in f64, 16-bit values in f32.
/// Throws: ValueError for a negative tolerance or NaN.
/// Source: torch.isclose.
[[nodiscard]] Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
                             bool equal_nan = false);
/// Whether all elements are close. One host read. Source: torch.allclose.
[[nodiscard]] bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
                            bool equal_nan = false);

}  // namespace mezzo
