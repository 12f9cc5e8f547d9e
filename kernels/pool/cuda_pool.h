// What kernels/pool/pool.h does on a CUDA device.
#pragma once

#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cuda {

void max_pool(Device device, const Pooling& pooling, const View& y, std::int64_t* indices, const View& x);
void max_pool_backward(Device device, const Pooling& pooling, const View& dx, const View& grad,
                       const std::int64_t* indices);
void average_pool(Device device, const AveragePooling& pooling, const View& y, const View& x);
void average_pool_backward(Device device, const AveragePooling& pooling, const View& dx, const View& grad);

}  // namespace mezzo::kernels::cuda
