// What kernels/scan/scan.h does on a CUDA device.
#pragma once

#include "mezzo/kernels/scan/scan.h"

namespace mezzo::kernels::cuda {

void scan(Device device, const View& out, const Recurrence& recurrence, std::size_t dim, DType compute);

}  // namespace mezzo::kernels::cuda
