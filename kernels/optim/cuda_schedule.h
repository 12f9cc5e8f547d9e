// What kernels/optim/schedule.h does on a CUDA device.
#pragma once

#include "mezzo/kernels/optim/schedule.h"

namespace mezzo::kernels::cuda {

void advance_schedule(Device device, const AdvanceScheduleFn& advance);

}  // namespace mezzo::kernels::cuda
