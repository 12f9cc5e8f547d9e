// What kernels/resample/interpolate.h does on a CUDA device.
#pragma once

#include "mezzo/kernels/resample/interpolate.h"

namespace mezzo::kernels::cuda {

void interpolate(Device device, const InterpolateShape& shape, const View& out, const View& x, DType compute);
void interpolate_backward(Device device, const InterpolateShape& shape, const View& out, const View& grad,
                          DType compute);

}  // namespace mezzo::kernels::cuda
