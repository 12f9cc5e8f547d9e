// Whether this translation unit can hold kernels for the device: it is compiled by nvcc, or by a plain
// compiler against the emulated device of the tests. The front ends (pointwise/pointwise.h, reduce/reduce.h,
// random/generate.h) take the answer as a last template argument, so that translation units of both kinds can
// be linked together.
#pragma once

#include "mezzo/core/device.h"
#include "mezzo/core/error.h"

// Not with an installed mezzo that was built without CUDA, which has no such kernels.
#if (defined(__CUDACC__) || defined(MEZZO_CUDA_EMULATED)) && __has_include("mezzo/kernels/pointwise/cuda.h")
#define MEZZO_DEVICE_CODE true
#else
#define MEZZO_DEVICE_CODE false
#endif

namespace mezzo::kernels {

/// For front ends without device code. Throws: DeviceError unless the device is the CPU.
inline void require_host_kernel(Device device) {
  if (device.is_cpu()) return;
  throw DeviceError("kernels", "a kernel compiled for " + to_string(device), "one for the CPU only",
                    "compile this source file as CUDA (set its LANGUAGE to CUDA in CMake)");
}

}  // namespace mezzo::kernels

/// For front ends with `device` and the template argument kDeviceCode: returns the call, of loops in
/// namespace cuda, for a CUDA device, and goes on for the CPU. Throws: DeviceError where this translation
/// unit has no such loops.
#if MEZZO_DEVICE_CODE
#define MEZZO_ON_CUDA(...)                    \
  if constexpr (kDeviceCode) {                \
    if (device.is_cuda()) return __VA_ARGS__; \
  } else {                                    \
    require_host_kernel(device);              \
  }
#else
#define MEZZO_ON_CUDA(...) require_host_kernel(device);
#endif
