// Ops along a dim whose results depend on all elements before: running sums and products, and the product
// of all.
//
// Common contract. Dtypes: floating -> x's, integers and bools -> i64 (modulo 2^64), or `dtype` where given;
// f32 under autocast for 16-bit input (but for logcumsumexp and linear_recurrence, which keep theirs).
// Results are accumulated in f64, each rounded once to its dtype. A dim counts from the end when negative
// (IndexError); a 0-dim x counts as one of length 1. Differentiable to any order, with exact gradients also
// where elements are 0: no gradient divides by an element.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/reduction.h"

namespace mezzo {

/// y_i = x_0 + ... + x_i along a dim.
/// Shapes: x's.
[[nodiscard]] Tensor cumsum(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});
/// y_i = x_0 ... x_i along a dim.
/// Shapes: x's.
[[nodiscard]] Tensor cumprod(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});
/// y_i = log(e^x_0 + ... + e^x_i) along a dim, without overflow at any x. An element of -infinity has no
/// gradient.
/// Shapes: x's.
/// Dtypes: floating (DTypeError) -> x's.
[[nodiscard]] Tensor logcumsumexp(const Tensor& x, std::int64_t dim);
/// The largest (smallest) element so far along a dim, and where it stands: of equal ones the last. A NaN
/// stays from where it stands on. The gradient goes to the element at the index. Shapes: both x's. Dtypes:
/// any, which the values keep, also under autocast; indices i64. Source: torch.cummax.
[[nodiscard]] ValuesIndices cummax(const Tensor& x, std::int64_t dim);
[[nodiscard]] ValuesIndices cummin(const Tensor& x, std::int64_t dim);
/// The product along a dim, or of all elements without one; 1 over no elements.
[[nodiscard]] Tensor prod(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false,
                          std::optional<DType> dtype = {});

/// h_i = scale_i h_(i-1) + add_i along a dim, with `initial` before the first element; from the last to the
/// first when `reverse`. Either may be undefined: then 1 is the scale, or nothing is added; not both
/// (ValueError). The gradients of the ops above are made of this op.
/// Shapes: scale's and add's are the same (ShapeError) -> that.
[[nodiscard]] Tensor linear_recurrence(const Tensor& scale, const Tensor& add, std::int64_t dim,
                                       double initial = 0, bool reverse = false);

}  // namespace mezzo
