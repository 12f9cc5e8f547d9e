// Which CUDA devices there are, asked once and late, and the guard that selects one.
#pragma once

#include <cuda_runtime.h>

#include <new>
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

/// Whether a device has a context in this process: some 530 MiB of its memory, made by the first call that
/// needs it. Where the driver does not say: true.
[[nodiscard]] bool has_context(int index) noexcept;

/// Selects a device for this thread's CUDA calls while it lives, and at its end the previous device again if
/// that has a context: to select it would make one. Calls nothing when there is only one device. Throws
/// DeviceError, or, with std::nothrow, leaves the failure to the calls that follow.
class DeviceGuard : mezzo::detail::NoCopy {
 public:
  explicit DeviceGuard(int index);
  DeviceGuard(int index, std::nothrow_t /*tag*/) noexcept { static_cast<void>(select(index)); }
  ~DeviceGuard();

 private:
  cudaError_t select(int index) noexcept;

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
