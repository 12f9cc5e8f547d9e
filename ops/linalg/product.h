// How the ops of the matmul family reach the GEMM seam: shapes checked, batch dims broadcast, strides handed
// over as they are.
#pragma once

#include "mezzo/kernels/gemm/gemm.h"
#include "mezzo/ops/forward.h"

namespace mezzo::ops {

/// Extras of a product (kernels/gemm/gemm.h); undefined for none. Both are contiguous and have the result's
/// dtype.
struct ProductExtras {
  Tensor bias = {};      ///< [n], added to every row; only with beta 0
  Tensor row_sums = {};  ///< [m], receives the sums of a's rows; only for matrices without batch dims
  Tensor a_scale = {}, b_scale = {};  ///< one f32 each, factors of alpha; both or none, only with beta 0
};

/// out = alpha * a x b + beta * out for [.., m, k] x [.., k, n] -> [.., m, n]; a's and b's batch dims
/// broadcast to out's.
void product_into(const Tensor& out, const Tensor& a, const Tensor& b, double alpha = 1, double beta = 0,
                  const ProductExtras& extras = {});

/// dtype of a product: `out_dtype` if given, else the operands'. Throws DTypeError when these differ.
[[nodiscard]] DType product_dtype(std::string_view op, const Tensor& a, const Tensor& b,
                                  std::optional<DType> out_dtype);

/// dtype for what is multiplied again before the result is rounded: f32 for 16-bit operands, else theirs.
[[nodiscard]] inline DType unrounded(DType dtype) { return is_16bit(dtype) ? DType::f32 : dtype; }

/// Throws ShapeError unless the inner sizes agree.
void require_inner(std::string_view op, const Tensor& a, const Tensor& b, std::int64_t inner_a,
                   std::int64_t inner_b);

/// The product of all sizes but the last, which may be 0.
[[nodiscard]] std::int64_t rows_of(Shape shape);

/// Throws ShapeError unless the tensor has this many dims.
void require_dims(std::string_view op, const char* what, const Tensor& tensor, std::int64_t dims);

}  // namespace mezzo::ops
