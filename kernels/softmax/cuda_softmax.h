// What kernels/softmax/softmax.h does on a CUDA device.
#pragma once

#include "mezzo/kernels/softmax/softmax.h"

namespace mezzo::kernels::cuda {

void softmax(Device device, SoftmaxKind kind, const View& out, const View& in, std::size_t dim,
             DType compute);
void softmax_backward(Device device, SoftmaxKind kind, const View& out, const View& grad, const View& output,
                      std::size_t dim, DType compute);

}  // namespace mezzo::kernels::cuda
