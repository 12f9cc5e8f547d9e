// Gradients that need not be read to know whether they are finite. A weight gradient in f32 that is a product
// of two f16 tensors holds inf or NaN exactly when one of these does: |f16| <= 65504, so no sum of fewer than
// 2^92 products overflows f32, and an inf or NaN takes part in at least one element. The operands of a large
// layer are a fraction of its gradient, and GradScaler looks at them instead.
#pragma once

#include <span>

#include "mezzo/core/tensor.h"

namespace mezzo {

/// For functions of gradients: notes that `product` = a product of all of `a` with all of `b` without any
/// other factor. Nothing is noted, and nothing kept alive, unless product is f32 and not small, both operands
/// are f16, and together they take at most a quarter of its memory.
void prove_finite_by(const Tensor& product, const Tensor& a, const Tensor& b);

/// The tensors that are finite exactly when `tensor` is; empty when nothing is known, or when one of the
/// three was written since. Valid while the tensor lives.
[[nodiscard]] std::span<const Tensor> finite_proof(const Tensor& tensor);

}  // namespace mezzo
