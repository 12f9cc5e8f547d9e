#include "mezzo/core/cuda/device.h"

#include <algorithm>

#include "mezzo/core/cuda/check.h"

namespace mezzo::cuda {

namespace {

// Numbers, as the emulated runtime does not name these.
constexpr int kSystemDriverMismatch = 803;
constexpr int kCompatNotSupported = 804;

std::string cause_and_cure(cudaError_t status) {
  const std::string name = cudaGetErrorName(status);
  switch (static_cast<int>(status)) {
    case cudaErrorInsufficientDriver:
      return "no usable NVIDIA driver (" + name + "); running on the CPU";
    case cudaErrorNoDevice:
      return "no CUDA device (" + name + "): check nvidia-smi and CUDA_VISIBLE_DEVICES; running on the CPU";
    case kSystemDriverMismatch:
    case kCompatNotSupported:
      return "driver and CUDA libraries do not fit (" + name +
             "): update or restart the driver; running on the CPU";
    default:
      return "the device cannot be used (" + describe(status) + "); running on the CPU";
  }
}

Probe look() {
  Probe found;
  int count = 0;  // left untouched by a call that fails
  found.status = cudaGetDeviceCount(&count);
  if (found.status == cudaSuccess && count == 0) found.status = cudaErrorNoDevice;
  if (found.status == cudaSuccess) {
    found.count = std::min(count, kMaxDevices);
  } else {
    static_cast<void>(cudaGetLastError());  // answered here, so nobody else shall see it
    found.reason = "CUDA is not used: " + cause_and_cure(found.status);
  }
  return found;
}

}  // namespace

const Probe& probe() {
  // Never destroyed: tensors in static objects ask for their device late.
  static const auto* const found = new Probe(look());
  return *found;
}

DeviceGuard::DeviceGuard(int index) {
  if (index == 0 && probe().count == 1) return;
  int current = -1;
  check(cudaGetDevice(&current), "cudaGetDevice");
  if (current == index) return;
  check(cudaSetDevice(index), "cudaSetDevice");
  previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ >= 0) static_cast<void>(cudaSetDevice(previous_));
}

RelaxedCapture::RelaxedCapture() noexcept
    : changed_(cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess) {}

RelaxedCapture::~RelaxedCapture() {
  if (changed_) static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
}

}  // namespace mezzo::cuda
