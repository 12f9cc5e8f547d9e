// The CPU advances a schedule by calling it: the arithmetic is the same for all devices.
#include "mezzo/kernels/optim/schedule.h"

namespace mezzo::kernels::cpu {

void advance_schedule(const AdvanceScheduleFn& advance) { advance(); }

}  // namespace mezzo::kernels::cpu
