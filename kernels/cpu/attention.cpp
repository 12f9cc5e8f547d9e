// NOT YET: the kernels follow; until then ops/attention_common.h sends the CPU to the plain composition.
#include "mezzo/kernels/cpu/attention.h"

namespace mezzo::kernels::cpu {

void attention(const Attention& /*attention*/, const View& /*out*/, void* /*logsumexp*/) {}
void attention_backward(const Attention& /*attention*/, const View& /*dq*/, const View& /*dk*/,
                        const View& /*dv*/, const View& /*grad*/, const View& /*out*/,
                        const void* /*logsumexp*/) {}

}  // namespace mezzo::kernels::cpu
