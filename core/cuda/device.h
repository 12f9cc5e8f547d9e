// Which CUDA devices there are, asked once and late, and the guard that selects one.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "mezzo/core/scope.h"

namespace mezzo::cuda {

/// Devices beyond this many are not used; per-device tables are plain arrays of this size.
inline constexpr int kMaxDevices = 16;

/// The result of the first look for devices.
struct Probe {
  int count = 0;
  cudaError_t status = cudaSuccess;
  std::string reason;  ///< one line with cause and cure, empty when `count` is above 0
};

/// The result of the one look for devices, which the first call makes. Without a driver it takes less than a
/// millisecond. Never throws because of the device.
[[nodiscard]] const Probe& probe();

/// Compute capability of a device, times ten: 75, 80, 90. CUDA is asked once. Throws DeviceError.
[[nodiscard]] int compute_capability(int index);

/// Selects a device for this thread's CUDA calls while it lives, and at its end the previous device again.
/// Calls nothing when the device is selected already or there is only one. Throws DeviceError.
class DeviceGuard : mezzo::detail::NoCopy {
 public:
  explicit DeviceGuard(int index);
  ~DeviceGuard();

 private:
  int previous_ = -1;  // -1: nothing to restore
};

/// Lets this thread make calls that a stream capture elsewhere in the process forbids (memory from the
/// system, for one), as long as they do not touch the capturing stream. Failures show in the call that
/// follows.
class RelaxedCapture : mezzo::detail::NoCopy {
 public:
  RelaxedCapture() noexcept;
  ~RelaxedCapture();

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool changed_;
};

}  // namespace mezzo::cuda
