// What kernels/resample/interpolate.h does on the CPU.
#pragma once

#include "mezzo/kernels/resample/interpolate.h"

namespace mezzo::kernels::cpu {

void interpolate(const InterpolateShape& shape, const View& out, const View& x, DType compute);
void interpolate_backward(const InterpolateShape& shape, const View& out, const View& grad, DType compute);

}  // namespace mezzo::kernels::cpu
