// The kernel of learning-rate schedules: it counts steps and writes rates in device memory, so that a
// training loop or a captured step follows its schedule without the host.
#pragma once

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/optim/schedule_math.h"

namespace mezzo::kernels {

/// Unless `record` (may be null) says skip: *step += by, and every group's rates become what its schedule
/// says of that step. All pointers, those in the groups too, are memory of `device`; each group has
/// `num_nodes` nodes. One thread; nothing is read back.
MEZZO_KERNEL(advance_schedule, void(const AdvanceScheduleFn& advance));

}  // namespace mezzo::kernels
