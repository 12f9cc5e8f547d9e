// Convolutions on a CUDA device; see kernels/conv/conv.h. Results are the same bits in every run.
#pragma once

#include "mezzo/kernels/conv/conv.h"

namespace mezzo::kernels::cuda {

void conv_forward(Device device, const ConvShape& shape, const View& y, const View& x, const View& weight,
                  const void* bias);
void conv_input_gradient(Device device, const ConvShape& shape, const View& x, const View& y,
                         const View& weight, const void* bias);
void conv_weight_gradient(Device device, const ConvShape& shape, const View& weight, const View& x,
                          const View& y, void* bias);

}  // namespace mezzo::kernels::cuda
