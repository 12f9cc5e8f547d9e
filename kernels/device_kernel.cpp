// The error of a kernel that this library was built without.
#include "mezzo/kernels/device_kernel.h"

#include "mezzo/core/error.h"

namespace mezzo::kernels {

void refuse_device(Device device) {
  throw DeviceError("kernels", "a library with kernels for " + to_string(device),
                    "one built for the CPU only", "build mezzo with -DMEZZO_CUDA=ON");
}

}  // namespace mezzo::kernels
