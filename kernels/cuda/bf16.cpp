// The warning of bf16 on GPUs before compute capability 8.0.
#include "mezzo/kernels/cuda/bf16.h"

#include <string>

#include "mezzo/core/cuda/device.h"
#include "mezzo/core/warning.h"

namespace mezzo::kernels::cuda {

bool multiplies_bf16(Device device, const char* op) {
  static constinit WarningSite site("bf16_in_f32");
  const int capability = mezzo::cuda::compute_capability(device.index);
  if (capability >= 80) return true;
  if (site.is_fresh())
    site.warn(
        op, "a GPU of compute capability 8.0 or above for bf16",
        to_string(device) + " of " + std::to_string(capability / 10) + "." + std::to_string(capability % 10),
        "its bf16 is converted by integers and multiplied in f32; f16 with GradScaler has its matrix units");
  return false;
}

}  // namespace mezzo::kernels::cuda
