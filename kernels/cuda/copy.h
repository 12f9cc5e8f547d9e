// Copies between strided arrays of any dtypes; for host code too, which holds no kernels.
#pragma once

#include "mezzo/core/device.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels::cuda {

/// to = from, element by element, rounded once. `from` has the shape of `to`; its strides may be 0.
void copy(Device device, const View& to, const View& from);

}  // namespace mezzo::kernels::cuda
