// What kernels/optim/grad_clip.h does on a CUDA device: a launch for as many tensors as fit into its
// arguments, and one for each that is not one run of elements.
#pragma once

#include "mezzo/kernels/optim/grad_clip.h"

namespace mezzo::kernels::cuda {

void total_norm(Device device, std::span<const View> tensors, double p, const View& total);
void scale_to_norm(Device device, std::span<const View> tensors, double max_norm, const View& total);
void limit_values(Device device, std::span<const View> tensors, double limit);

}  // namespace mezzo::kernels::cuda
