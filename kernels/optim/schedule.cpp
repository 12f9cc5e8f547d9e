#include "mezzo/kernels/optim/schedule.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/optim/cuda_schedule.h"

namespace mezzo::kernels {

void advance_schedule(Device device, const AdvanceScheduleFn& advance) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::advance_schedule(device, advance);
#endif
  require_host_kernel(device);
  advance();
}

}  // namespace mezzo::kernels
