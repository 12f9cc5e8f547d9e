// Convolutions on the CPU; see kernels/conv/conv.h.
#pragma once

#include "mezzo/kernels/conv/conv.h"

namespace mezzo::kernels::cpu {

void conv_forward(const ConvShape& shape, const View& y, const View& x, const View& weight, const void* bias);
void conv_input_gradient(const ConvShape& shape, const View& x, const View& y, const View& weight,
                         const void* bias);
void conv_weight_gradient(const ConvShape& shape, const View& weight, const View& x, const View& y,
                          void* bias);

}  // namespace mezzo::kernels::cpu
