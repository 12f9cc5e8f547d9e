// Float8: tensors as 8-bit codes with a scale. Products in float8 are asked for by autocast
// (AutocastOptions::fp8, amp/autocast.h).
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

struct QuantizeF8Options {
  DType dtype = DType::f8_e4m3;  ///< or f8_e5m2
  bool power_of_two = false;     ///< scales are rounded down to powers of two
  bool per_row = false;          ///< a scale for each row of the last dim instead of one for all
};

/// codes / scale is close to x.
struct QuantizedF8 {
  Tensor codes;    ///< as x, of the float8 dtype
  Tensor scale;    ///< f32, 0-dim; per row as x with a last dim of 1
  Tensor inverse;  ///< f32(1 / scale); NaN where x is not finite, so that every product with it is NaN
};

/// amax = max|x|, scale = largest value of the dtype / amax (1 for amax 0), codes = x * scale, rounded to
/// nearest even. No state, no host read, no history.
/// Shapes: any; per_row: at least one dim. Dtypes: f16, bf16, f32.
/// Throws: DTypeError for other dtypes of x and for `dtype` other than float8; ShapeError for per_row and 0
/// dims. Source: current scaling, as NVIDIA's Transformer Engine and torchao have it.
[[nodiscard]] QuantizedF8 quantize_f8(const Tensor& x, const QuantizeF8Options& options = {});

/// y = codes * inverse in `dtype`, rounded once. The gradient of the codes is the gradient of y.
/// Shapes: codes of any, inverse 0-dim or as quantize_f8 gives it per row. Dtypes: float8 and f32 -> f16,
/// bf16 or f32. Throws: DTypeError, ShapeError.
[[nodiscard]] Tensor dequantize_f8(const Tensor& codes, const Tensor& inverse, DType dtype = DType::f32);

}  // namespace mezzo
