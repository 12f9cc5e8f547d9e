// What tests allow on a GPU and not on the emulated device (tests/emulated_cuda).
#pragma once

#include "mezzo/core/backend.h"
#include "mezzo/core/device.h"

namespace mezzo::test {

/// Whether `device` is a GPU.
[[nodiscard]] inline bool is_gpu(Device device) {
  return device.is_cuda() && !backend(device).description().starts_with("Emulated");
}

/// What a GPU's matrix units may lose of each float8 product, of the largest of a sum
/// (kernels/gemm/cuda_float8.cu). The emulated device has sums in f32, as the CPU.
[[nodiscard]] inline double float8_cut(Device device) { return is_gpu(device) ? 0x1p-13 : 0; }

}  // namespace mezzo::test
