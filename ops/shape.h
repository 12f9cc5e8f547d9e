// Ops that change how elements are arranged and never their values: views, slices, joins. One header for
// the family.
//
// Common contract. Names and argument meaning are PyTorch's. Dims count from the end when negative; one that
// is not there throws IndexError. All are views, which share x's memory and copy nothing, but reshape and
// flatten where strides cannot show the result, slice_backward, cat, stack and repeat. Dtypes: any, which the
// result keeps; cat and stack promote. Any strides, without dims or elements too; a result of more than 8
// dims throws ShapeError. Differentiable to any order.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "mezzo/autograd/op.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// --- views (shape/view.cpp)

/// x's elements in row-major order in another shape; one size may be -1 and is then found. A view where
/// strides can show it, else a copy. Throws: ShapeError when the element counts differ.
[[nodiscard]] Tensor reshape(const Tensor& x, const Shape& shape);
/// reshape, but never a copy: throws ShapeError where one is needed.
[[nodiscard]] Tensor view(const Tensor& x, const Shape& shape);
/// Dims in another order: result dim i is x's dim dims[i]. Throws: ShapeError unless every dim is named once.
[[nodiscard]] Tensor permute(const Tensor& x, const Dims& dims);
/// Dims d0 and d1 exchanged.
[[nodiscard]] Tensor transpose(const Tensor& x, std::int64_t d0, std::int64_t d1);
/// The transpose of a matrix; fewer than 2 dims stay as they are. Throws: ShapeError for more.
[[nodiscard]] Tensor t(const Tensor& x);
/// Dims of size 1 repeated to `sizes` without a copy; -1 keeps a size, new dims come in front. Throws:
/// ShapeError for what does not broadcast. In-place writes to the result are refused.
[[nodiscard]] Tensor expand(const Tensor& x, const Shape& sizes);
/// Without the dims of size 1: all of them when `dim` is empty, or those listed (other sizes stay).
[[nodiscard]] Tensor squeeze(const Tensor& x, const Dims& dim = {});
/// squeeze of one dim. A template so that braces always mean a list.
template <std::integral I>
[[nodiscard]] Tensor squeeze(const Tensor& x, I dim) {
  return squeeze(x, Dims{static_cast<std::int64_t>(dim)});
}
/// With a new dim of size 1 at `dim`, in [-rank - 1, rank].
[[nodiscard]] Tensor unsqueeze(const Tensor& x, std::int64_t dim);
/// Dims [start_dim, end_dim] merged into one, as reshape does it; a 0-dim x becomes [1]. Throws: ShapeError
/// when end_dim comes before start_dim.
[[nodiscard]] Tensor flatten(const Tensor& x, std::int64_t start_dim = 0, std::int64_t end_dim = -1);
/// A view of all of x with a place of its own in the graph, where gradients of x stay apart.
[[nodiscard]] Tensor identity(const Tensor& x);

// --- slices (shape/slicing.cu); a 0-dim x throws IndexError

/// Elements start, start + step, ... below end along a dim, as Python's x[start:end:step]: bounds count from
/// the end when negative and are clamped. Throws: ValueError unless step > 0.
[[nodiscard]] Tensor slice(const Tensor& x, std::int64_t dim, std::optional<std::int64_t> start = {},
                           std::optional<std::int64_t> end = {}, std::int64_t step = 1);
/// Position `index` of a dim, which goes. Throws: IndexError outside of [-size, size).
[[nodiscard]] Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index);
/// `length` positions of a dim from `start` on, which counts from the end when negative. Throws: IndexError
/// where they are not all there.
[[nodiscard]] Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);
/// Consecutive pieces along a dim of the given sizes, which must add up to its size (ShapeError).
[[nodiscard]] Tensors split(const Tensor& x, const IntList& sizes, std::int64_t dim = 0);
/// Pieces of `size` positions, the last one shorter where it does not divide; at least one piece. Throws:
/// ValueError for a size below 1 (0 is taken for an empty dim). Through the registry a list of one size means
/// this.
[[nodiscard]] Tensors split_evenly(const Tensor& x, std::int64_t size, std::int64_t dim = 0);
/// torch.split's other form: split(x, 3) is split_evenly(x, 3), split(x, {3}) is one piece.
template <std::integral I>
[[nodiscard]] Tensors split(const Tensor& x, I size, std::int64_t dim = 0) {
  return split_evenly(x, static_cast<std::int64_t>(size), dim);
}
/// All positions of a dim, each as `select` gives it.
[[nodiscard]] Tensors unbind(const Tensor& x, std::int64_t dim = 0);
/// Zeros of `shape` with `grad` in the place of slice(dim, start, end, step): the gradient of slice, select
/// and narrow. Throws: ShapeError unless grad has the slice's shape.
[[nodiscard]] Tensor slice_backward(const Tensor& grad, const Shape& shape, std::int64_t dim,
                                    std::optional<std::int64_t> start = {},
                                    std::optional<std::int64_t> end = {}, std::int64_t step = 1);

// --- joins (shape/join.cu)

/// Tensors one after the other along a dim, in the promoted dtype. Throws: ShapeError unless all other sizes
/// agree, for an empty list and for 0-dim tensors. As in PyTorch, tensors of shape [0] are skipped whatever
/// the shape of the others.
[[nodiscard]] Tensor cat(TensorList tensors, std::int64_t dim = 0);
/// Tensors of one shape (ShapeError) along a new dim; dtype as for cat.
[[nodiscard]] Tensor stack(TensorList tensors, std::int64_t dim = 0);
/// x repeated reps[i] times along dim i; more reps than dims put new dims in front. Throws: ShapeError for
/// fewer reps than dims, ValueError for negative reps.
[[nodiscard]] Tensor repeat(const Tensor& x, const Dims& reps);

}  // namespace mezzo
