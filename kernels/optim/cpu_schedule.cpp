#include "mezzo/kernels/optim/schedule.h"

namespace mezzo::kernels::cpu {

void advance_schedule(const AdvanceScheduleFn& advance) { advance(); }

}  // namespace mezzo::kernels::cpu
