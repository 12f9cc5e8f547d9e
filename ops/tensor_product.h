// Products of tensors by index: einsum, tensordot, bilinear, kron, cross. Dtypes: operands of one call
// share one (but for kron and cross, which promote). They may have any strides; the result is a new tensor.
// Accumulated as matmul does it (ops/matmul.h) and rounded once: intermediate results of 16-bit operands are
// f32. Differentiable to any order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mezzo/core/tensor.h"

namespace mezzo {

/// Einstein's sum in torch.einsum's notation: a letter names an index of each operand's dims ("ij,jk->ik"),
/// letters that the result lacks are summed over. Sizes of a letter agree or are 1; a letter twice in one
/// operand is its diagonal; "..." stands for further dims, which broadcast. Without "->" the result has the
/// dims of "..." and then the letters that occur once, capitals first. Operands are multiplied from left to
/// right. Runs in the low precision of an autocast region. Throws: ValueError for a wrong equation,
/// ShapeError for operands that do not fit it, DTypeError for mixed dtypes.
[[nodiscard]] Tensor einsum(const std::string& eq, TensorList operands);

/// The sum over dims_a[i] of a paired with dims_b[i] of b. Promotes under autocast.
/// Shapes: paired sizes agree or one of them is 1 (ShapeError) -> a's other dims, then b's.
/// Throws: IndexError for a dim that is not there or given twice.
[[nodiscard]] Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& dims_a, const Dims& dims_b);
/// The last `dims` dims of a with the first of b, in order.
[[nodiscard]] Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t dims = 2);

/// sum_ij a_i w_oij b_j + bias_o. Computed in f32 for 16-bit dtypes and rounded once. Promotes under
/// autocast.
/// Shapes: a [.., i], b [.., j], w [o, i, j], bias [o] or undefined -> [.., o].
/// Throws: ShapeError, DTypeError.
[[nodiscard]] Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& bias = {});

/// Kronecker's product: every element of a times all of b, dim by dim; dims of size 1 stand in front of the
/// operand that has fewer.
/// Shapes: [.., m], [.., n] -> [.., m n], of at most 4 dims (ShapeError).
/// Dtypes: any -> their common one. Source: torch.kron.
[[nodiscard]] Tensor kron(const Tensor& a, const Tensor& b);

/// The vector product along a dim of size 3 (the first such dim of a unless given); other dims broadcast.
/// Promotes under autocast.
/// Shapes: a and b have equally many dims (ShapeError).
/// Dtypes: any -> their common one, which must not be bool (DTypeError).
[[nodiscard]] Tensor cross(const Tensor& a, const Tensor& b, std::optional<std::int64_t> dim = {});

}  // namespace mezzo
