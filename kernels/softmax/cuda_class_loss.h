// What kernels/softmax/class_loss.h does on a CUDA device.
#pragma once

#include "mezzo/kernels/softmax/class_loss.h"

namespace mezzo::kernels::cuda {

/// The host does not learn the result: an index out of range becomes a fault of the device.
void count_classes(Device device, const char* op, const ClassTarget& target, std::int64_t rows,
                   std::int64_t classes, double* weight_sum, DType compute);
void cross_entropy(Device device, void* losses, const View& x, std::size_t dim, const ClassTarget& target,
                   DType compute);
void cross_entropy_backward(Device device, const View& out, const RowScales& scales, const View& x,
                            std::size_t dim, const ClassTarget& target, DType compute);
void nll(Device device, void* losses, const View& x, std::size_t dim, const ClassTarget& target,
         DType compute);
void nll_backward(Device device, const View& out, const RowScales& scales, std::size_t dim,
                  const ClassTarget& target, DType compute);

}  // namespace mezzo::kernels::cuda
