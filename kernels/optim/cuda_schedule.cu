// Learning-rate schedules on a CUDA device: the functor of schedule.h in a kernel of one thread.
#include "mezzo/kernels/optim/schedule.h"

#include "mezzo/core/cuda/launch.h"

namespace mezzo::kernels::cuda {

namespace {

/// A few numbers per group: one thread has done before a second one would have paid.
__global__ void advance_one_schedule(AdvanceScheduleFn advance) { advance(); }

}  // namespace

void advance_schedule(Device device, const AdvanceScheduleFn& advance) {
  mezzo::cuda::launch(advance_one_schedule, dim3(1), dim3(1), 0, mezzo::cuda::current_stream(device),
                      advance);
}

}  // namespace mezzo::kernels::cuda
