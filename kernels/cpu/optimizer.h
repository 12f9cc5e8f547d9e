// What kernels/optimizer.h does on the CPU. Everything that is "in device memory" there is host memory.
#pragma once

#include "mezzo/kernels/optimizer.h"

namespace mezzo::kernels::cpu {

void sgd(std::span<const ParameterUpdate> updates, const SgdRule& rule, const UpdateControl& control);
void adam(std::span<const ParameterUpdate> updates, const AdamRule& rule, const UpdateControl& control);

}  // namespace mezzo::kernels::cpu
