#include "mezzo/kernels/optimizer.h"

#include "mezzo/kernels/cpu/optimizer.h"
#include "mezzo/kernels/cuda/optimizer.h"
#include "mezzo/kernels/device_code.h"

namespace mezzo::kernels {

void sgd(Device device, std::span<const ParameterUpdate> updates, const SgdRule& rule,
         const UpdateControl& control) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::sgd(device, updates, rule, control);
#endif
  require_host_kernel(device);
  cpu::sgd(updates, rule, control);
}

void adam(Device device, std::span<const ParameterUpdate> updates, const AdamRule& rule,
          const UpdateControl& control) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::adam(device, updates, rule, control);
#endif
  require_host_kernel(device);
  cpu::adam(updates, rule, control);
}

}  // namespace mezzo::kernels
