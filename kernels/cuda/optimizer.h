// What kernels/optimizer.h does on a CUDA device: one launch for as many parameters as fit into a kernel's
// arguments, and one for each parameter whose arrays do not all lie in one run. A fault of the device
// (core/cuda/fault.h) skips the update as found_inf does. Needs UpdateControl::ticket.
#pragma once

#include "mezzo/kernels/optimizer.h"

namespace mezzo::kernels::cuda {

void sgd(Device device, std::span<const ParameterUpdate> updates, const SgdRule& rule,
         const UpdateControl& control);
void adam(Device device, std::span<const ParameterUpdate> updates, const AdamRule& rule,
          const UpdateControl& control);

}  // namespace mezzo::kernels::cuda
