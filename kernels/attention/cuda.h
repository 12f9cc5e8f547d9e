// What kernels/attention/attention.h does on a CUDA device.
#pragma once

#include "mezzo/kernels/attention/attention.h"

namespace mezzo::kernels::cuda {

void attention(Device device, const Attention& attention, const View& out, void* logsumexp);
void attention_backward(Device device, const Attention& attention, const View& dq, const View& dk,
                        const View& dv, const View& grad, const View& out, const void* logsumexp);

}  // namespace mezzo::kernels::cuda
