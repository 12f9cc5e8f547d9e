// What kernels/norm/norm.h does on a CUDA device.
#pragma once

#include "mezzo/kernels/norm/norm.h"

namespace mezzo::kernels::cuda {

void row_norm(Device device, RowNorm kind, const View& out, const View& x, const NormParameters& parameters,
              double eps, DType compute);
void row_norm_backward(Device device, RowNorm kind, const RowNormGradients& out, const View& grad,
                       const View& x, const void* weight, double eps, DType compute);
[[nodiscard]] std::int64_t row_norm_parts(std::int64_t rows, std::int64_t n);
void run_norm(Device device, const RunLayout& layout, const View& out, const View& x,
              const NormParameters& parameters, const RunStatistics& statistics, double eps, DType compute);
void run_norm_backward(Device device, const RunLayout& layout, const RunNormGradients& out, const View& grad,
                       const View& x, const void* weight, const RunStatistics& statistics, double eps,
                       DType compute);

}  // namespace mezzo::kernels::cuda
