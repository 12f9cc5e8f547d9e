// The support of a GPU's libraries and matrix units for bf16.
#pragma once

#include "mezzo/core/device.h"

namespace mezzo::kernels::cuda {

/// Whether a device multiplies bf16: from compute capability 8.0 on. Where it does not, products are in f32,
/// and a warning says so once, in the name of `op`. Throws DeviceError.
bool multiplies_bf16(Device device, const char* op);

}  // namespace mezzo::kernels::cuda
