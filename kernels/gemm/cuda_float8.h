// Matrix products on a CUDA device with float8 operands, or with factors in device memory.
#pragma once

#include "mezzo/kernels/gemm/gemm.h"

namespace mezzo::kernels::cuda {

/// Whether a product is float8_gemm's.
[[nodiscard]] inline bool is_float8_product(const GemmArgs& args) {
  return is_float8(args.a_dtype) || is_float8(args.b_dtype) || args.a_scale != nullptr;
}

/// gemm for such a product, which has something to multiply, in `compute` (product_compute_dtype).
void float8_gemm(Device device, const GemmArgs& args, DType compute);

}  // namespace mezzo::kernels::cuda
