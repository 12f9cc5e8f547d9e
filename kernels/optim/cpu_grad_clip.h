// What kernels/optim/grad_clip.h does on the CPU.
#pragma once

#include "mezzo/kernels/optim/grad_clip.h"

namespace mezzo::kernels::cpu {

void total_norm(std::span<const View> tensors, double p, const View& total);
void scale_to_norm(std::span<const View> tensors, double max_norm, const View& total);
void limit_values(std::span<const View> tensors, double limit);

}  // namespace mezzo::kernels::cpu
