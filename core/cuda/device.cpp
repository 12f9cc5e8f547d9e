// The one call that looks for devices, with the likely cause and cure when it finds none, and the guards
// that select a device or relax the thread's capture mode.
#include "mezzo/core/cuda/device.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "mezzo/core/cuda/check.h"

namespace mezzo::cuda {

namespace {

// Numbers, as the emulated runtime does not name these.
constexpr int kSystemDriverMismatch = 803;
constexpr int kCompatNotSupported = 804;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string cause_and_cure(cudaError_t status) {
  switch (static_cast<int>(status)) {
    case cudaErrorInsufficientDriver:
      return "there is no NVIDIA driver, or it is too old for CUDA " + version_text(CUDART_VERSION) +
             ": install or update it until nvidia-smi shows that version or a later one";
    case cudaErrorNoDevice:
      return "the driver shows no GPU: check that nvidia-smi lists one and that CUDA_VISIBLE_DEVICES hides "
             "none";
    case kSystemDriverMismatch:
      return "the loaded driver is not the installed one: restart the machine";
    case kCompatNotSupported:
      return "CUDA's compatibility libraries do not serve this GPU: take them out of LD_LIBRARY_PATH, or "
             "update the driver";
    default:
      return "the GPU cannot be used: see whether nvidia-smi works";
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
    found.reason = "CUDA is not used: " + cause_and_cure(found.status) + " (" + describe(found.status) +
                   "); running on the CPU";
  }
  return found;
}

}  // namespace

const Probe& probe() {
  // Never destroyed: tensors in static objects ask for their device late.
  static const auto* const found = new Probe(look());
  return *found;
}

int compute_capability(int index) {
  static std::array<std::atomic<int>, kMaxDevices> known{};
  std::atomic<int>& result = known[static_cast<std::size_t>(index)];
  if (result == 0) {
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index), "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index), "cudaDeviceGetAttribute");
    result = 10 * major + minor;
  }
  return result;
}

namespace {

using GetContextState = int (*)(int device, unsigned* flags, int* active);

/// The driver's cuDevicePrimaryCtxGetState; nullptr: there is none.
GetContextState find_context_state() noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  constexpr unsigned kSince = 7000;
  const cudaError_t status = cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, kSince,
                                                              cudaEnableDefault, &result);
#else
  const cudaError_t status =
      cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &found, cudaEnableDefault, &result);
#endif
  const bool good = status == cudaSuccess && result == cudaDriverEntryPointSuccess;
  return good ? reinterpret_cast<GetContextState>(found) : nullptr;
}

}  // namespace

bool has_context(int index) noexcept {
  static const GetContextState state_of = find_context_state();
  unsigned flags = 0;
  int active = 1;
  if (state_of != nullptr && state_of(index, &flags, &active) != 0) return true;
  return active != 0;
}

DeviceGuard::DeviceGuard(int index) { check(select(index), "cudaSetDevice"); }

cudaError_t DeviceGuard::select(int index) noexcept {
  if (index == 0 && probe().count == 1) return cudaSuccess;
  int current = -1;
  cudaError_t status = cudaGetDevice(&current);
  if (status != cudaSuccess || current == index) return status;
  const bool returns = has_context(current);
  status = cudaSetDevice(index);
  if (status == cudaSuccess && returns) previous_ = current;
  return status;
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
