// Matrix products. All run in the low precision of an autocast region (dot and vdot promote, outer follows
// its inputs; ops/tensor_product.h has the other products), accumulate in f32 (f64 for f64; integers exactly)
// and round once. Operands of one call share a dtype; gradients come out in the dtype of the tensor they
// belong to, straight from the product: an f32 weight used through a 16-bit cast gets its gradient without a
// 16-bit rounding.
#pragma once

#include <optional>

#include "mezzo/core/scalar.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

/// Product over the last dim of a and the last but one of b, batch dims broadcast; a 1-dim operand is a row
/// (a) or column (b) vector whose dim is dropped from the result.
/// Shapes: [.., m, k] x [.., k, n] -> [.., m, n].
/// Dtypes: a and b share one, which is the result's. With `out_dtype` they may differ; the sum is rounded to
/// it once.
/// Throws: ShapeError (sizes, 0-dim operands), DTypeError. Source: torch.matmul.
[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b, std::optional<DType> out_dtype = {});
/// The product of two matrices.
/// Shapes: [m, k] x [k, n] -> [m, n].
[[nodiscard]] Tensor mm(const Tensor& a, const Tensor& b, std::optional<DType> out_dtype = {});
/// The product written into `out`: no new memory, no autocast, no history. Returns out.
/// Shapes: [m, k] x [k, n]; out [m, n], dense.
/// Dtypes: one for all three.
/// Throws: AutogradError when one of the three requires grad while recording is on, ValueError when out
/// shares an operand's memory, ShapeError, DTypeError, DeviceError. Source: torch.mm with out=.
const Tensor& mm_out(const Tensor& out, const Tensor& a, const Tensor& b);
/// The products of two batches of matrices.
/// Shapes: [b, m, k] x [b, k, n] -> [b, m, n].
[[nodiscard]] Tensor bmm(const Tensor& a, const Tensor& b, std::optional<DType> out_dtype = {});
/// The product of a matrix and a vector.
/// Shapes: [m, k] x [k] -> [m].
[[nodiscard]] Tensor mv(const Tensor& a, const Tensor& v);
// beta * x + alpha * product, in the sum's precision and rounded once; x broadcasts to the product's shape
// (ShapeError). With beta 0, x is not read. Throws: ValueError for integer tensors and a fractional beta or
// alpha.

/// The product of two matrices.
/// Shapes: [m, k] x [k, n] -> [m, n].
[[nodiscard]] Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1,
                           Scalar alpha = 1);
/// The product of a matrix and a vector.
/// Shapes: [m, k] x [k] -> [m].
[[nodiscard]] Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& v, Scalar beta = 1,
                           Scalar alpha = 1);
/// The outer product a_i b_j.
/// Shapes: [m] x [n] -> [m, n].
[[nodiscard]] Tensor addr(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1,
                          Scalar alpha = 1);
/// The products of two batches of matrices.
/// Shapes: [b, m, k] x [b, k, n] -> [b, m, n].
[[nodiscard]] Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1,
                             Scalar alpha = 1);
/// The sum of all products of a batch.
/// Shapes: [b, m, k] x [b, k, n] -> [m, n].
[[nodiscard]] Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1,
                            Scalar alpha = 1);

/// The product of matrices that follow one another, in the order of multiplications that costs least;
/// intermediate products of 16-bit matrices are f32. chain_matmul takes one matrix or more, multi_dot
/// (torch.linalg.multi_dot) two or more, of which the first may be a row vector and the last a column vector.
/// Shapes: [m, a] x [a, b] x .. x [z, n] -> [m, n]; without m for a row vector, without n for a column
/// vector.
/// Throws: ShapeError, DTypeError.
[[nodiscard]] Tensor chain_matmul(TensorList factors);
[[nodiscard]] Tensor multi_dot(TensorList factors);

/// x w^T + bias.
/// Shapes: x [.., in], weight [out, in], bias [out] or undefined -> [.., out].
/// Source: torch.nn.functional.linear.
[[nodiscard]] Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// The sum of the products of two vectors' elements.
/// Shapes: [k] x [k] -> [].
[[nodiscard]] Tensor dot(const Tensor& a, const Tensor& b);
/// dot(a, b): torch's vdot conjugates a, which real numbers do not need.
[[nodiscard]] Tensor vdot(const Tensor& a, const Tensor& b);
/// The outer product a_i b_j.
/// Shapes: [m] x [n] -> [m, n].
[[nodiscard]] Tensor outer(const Tensor& a, const Tensor& b);

}  // namespace mezzo
