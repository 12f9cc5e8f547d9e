// Quantisation to float8: the scale of a tensor (or of each row) from its largest magnitude, and its elements
// times the scale, cast. Scales stay in device memory, so no step of a training loop waits for the host.
#pragma once

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// A matrix to quantise. Its elements and codes lie row by row without gaps.
struct Quantization {
  const void* x = nullptr;
  DType dtype = DType::f32;    ///< of x: f16, bf16 or f32
  DType rounded = DType::f32;  ///< x counts as rounded to this dtype first, as autocast casts; f32: as it is
  std::int64_t rows = 0, columns = 0;
  DType format = DType::f8_e4m3;
  bool per_row = false;       ///< a scale for each row instead of one
  bool power_of_two = false;  ///< scales are rounded down to powers of two
  void* codes = nullptr;      ///< [rows, columns] of `format`
  float* scale = nullptr;     ///< [rows] or one
  float* inverse = nullptr;   ///< f32(1 / scale), as many
};

/// amax = max|x| (NaN propagates, 0 without elements); scale = f32(largest / amax), 1 for amax 0, the largest
/// f32 where that is inf; codes = cast(f32(x * scale)). Where amax is not finite the scale is 1 and the
/// inverse NaN: each product with it is NaN, and a GradScaler sees it. The bits depend on nothing but x.
MEZZO_KERNEL(quantize_float8, void(const Quantization& args));

}  // namespace mezzo::kernels
