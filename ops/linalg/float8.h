// How the ops of the matmul family run in float8.
#pragma once

#include "mezzo/autograd/float8.h"

namespace mezzo::ops {

/// The product that a x b + bias stands for, if one of two matrices is a parameter; bias may be undefined.
[[nodiscard]] Float8Product product_of_matrices(const Tensor& a, const Tensor& b, const Tensor& bias = {});

/// Makes the codes of x.
void quantize_input(Float8Request& request);
/// Makes the codes of the weight. `kept`: those of an f32 leaf stay with it, for its present version, until
/// drop_half_copies (autograd/half_copy.h).
void quantize_weight(Float8Request& request, bool kept);
/// linear of a request that was granted.
[[nodiscard]] Outputs run_linear_f8(const Float8Request& request);

}  // namespace mezzo::ops
