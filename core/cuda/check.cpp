// CUDA statuses as mezzo's errors: which of them are faults of an earlier kernel, which come from a stream
// capture, and what to do about each. Each thread's last eight launches are remembered for the message.
#include "mezzo/core/cuda/check.h"

#include <array>
#include <cstdint>

#include "mezzo/core/current_op.h"
#include "mezzo/core/error.h"

namespace mezzo::cuda {

namespace {

// The last launches of this thread. Names are static, so views of them may be kept.
struct Launches {
  std::array<std::string_view, 8> names{};
  std::uint64_t count = 0;
};
constinit thread_local Launches launches_of_thread{};

// cudaErrorStreamCaptureUnsupported up to cudaErrorStreamCaptureWrongThread.
bool forbidden_in_capture(cudaError_t status) noexcept { return status >= 900 && status <= 908; }

constexpr int kCudartUnloading = 4;
constexpr int kNoKernelImage = 209;

std::string fix_for(cudaError_t status) {
  if (is_asynchronous(status)) {
    return "a kernel failed and the device's context is lost: set MEZZO_CUDA_SYNC=1 and run again, so that "
           "the op at fault is named exactly";
  }
  switch (static_cast<int>(status)) {
    case cudaErrorInsufficientDriver:
      return "install an NVIDIA driver that knows this CUDA version, or use Device::cpu()";
    case cudaErrorNoDevice:
      return "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use Device::cpu()";
    case kNoKernelImage:
      return "build mezzo with this device in CMAKE_CUDA_ARCHITECTURES (native takes the one at hand)";
    case cudaErrorInvalidConfiguration:
      return "grid, block or shared memory of the launch are beyond the device's limits: please report";
    case kCudartUnloading:
      return "the program is ending: free CUDA tensors before main returns";
    default:
      return "set MEZZO_CUDA_SYNC=1 to rule out that an earlier op caused it";
  }
}

}  // namespace

std::string describe(cudaError_t status) {
  return std::string(cudaGetErrorName(status)) + " (" + cudaGetErrorString(status) + ")";
}

bool is_asynchronous(cudaError_t status) noexcept {
  // Illegal address, launch timeout, device assert; 714 to 719: stack, instruction, alignment, address space,
  // program counter, launch failure. Numbers, as the emulated runtime names only some of them.
  const int code = status;
  return code == cudaErrorIllegalAddress || code == 702 || code == cudaErrorAssert ||
         (code >= 714 && code <= 719);
}

void note_launch() noexcept {
  Launches& launches = launches_of_thread;
  launches.names[launches.count++ % launches.names.size()] = mezzo::detail::current_op;
}

std::string recent_launches() {
  const Launches& launches = launches_of_thread;
  const std::uint64_t size = launches.names.size();
  std::string text;
  for (std::uint64_t i = launches.count > size ? launches.count - size : 0; i < launches.count; ++i) {
    const std::string_view name = launches.names[i % size];
    text.append(text.empty() ? "" : ", ").append(name.empty() ? "(no op)" : name);
  }
  return text;
}

void fail(cudaError_t status, std::string_view what) {
  // The runtime keeps the error for the next cudaGetLastError; it must not be blamed on the next call.
  static_cast<void>(cudaGetLastError());
  const std::string_view op =
      mezzo::detail::current_op.empty() ? std::string_view("cuda") : mezzo::detail::current_op;
  const std::string expected = std::string(what) + " to succeed";
  std::string got = describe(status);
  if (is_asynchronous(status)) {
    const std::string recent = recent_launches();
    if (!recent.empty()) got += "; launched last: " + recent;
  }
  if (status == cudaErrorMemoryAllocation) {
    throw OutOfMemoryError(op, expected, got, "free tensors or host memory first, or use a smaller batch");
  }
  if (forbidden_in_capture(status)) {
    throw StateError(op, expected, got,
                     "a captured step may not read values back, wait or allocate from the system: move that "
                     "out of the step");
  }
  throw DeviceError(op, expected, got, fix_for(status));
}

}  // namespace mezzo::cuda
