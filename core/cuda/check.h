// Every CUDA call goes through `check`, which turns a status into one of mezzo's errors with the op's name.
// A program may hold a second cudart of its own (static, as nvcc links it): streams, events, graphs and the
// capture mode are the driver's and common to both, cudaGetLastError is each copy's own. So the error of a
// call is taken from what the call returns. What a kernel leaves behind comes from the driver to both.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <string_view>

namespace mezzo::cuda {

/// Throws for a status other than success: OutOfMemoryError for cudaErrorMemoryAllocation, StateError for
/// what a capture forbids, DeviceError for the rest. The message names the current op, `what` (the CUDA call
/// or kernel), the CUDA error's name and text, and what to do; for errors that a kernel left behind also the
/// ops that this thread launched last.
[[noreturn]] void fail(cudaError_t status, std::string_view what);

/// Nothing on success, else `fail`.
inline void check(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess) [[unlikely]]
    fail(status, what);
}

/// "cudaErrorNoDevice (no CUDA-capable device is detected)".
[[nodiscard]] std::string describe(cudaError_t status);

/// Whether the error was left behind by work on the device, so that any later call may report it. The
/// device's context is lost then.
[[nodiscard]] bool is_asynchronous(cudaError_t status) noexcept;

/// Remembers the current op as launched, for the message of an asynchronous error.
void note_launch() noexcept;
/// Names of the ops that this thread launched last, oldest first, separated by ", "; at most eight.
[[nodiscard]] std::string recent_launches();

}  // namespace mezzo::cuda
