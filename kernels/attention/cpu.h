// Attention on the CPU; see kernels/attention/attention.h.
#pragma once

#include "mezzo/kernels/attention/attention.h"

namespace mezzo::kernels::cpu {

void attention(const Attention& attention, const View& out, void* logsumexp);
void attention_backward(const Attention& attention, const View& dq, const View& dk, const View& dv,
                        const View& grad, const View& out, const void* logsumexp);

}  // namespace mezzo::kernels::cpu
