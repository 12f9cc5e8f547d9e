// The one way a kernel starts: checked, counted, with the op's name in the error.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/stream.h"

namespace mezzo::cuda {

/// Number of kernels started by `launch` in this process.
[[nodiscard]] std::uint64_t launches() noexcept;

/// Whether every launch is followed by a wait, so that a failing kernel is named exactly. Starts as the
/// environment's MEZZO_CUDA_SYNC=1 says. Launches into a capturing stream never wait.
[[nodiscard]] bool synchronous_launches() noexcept;
void set_synchronous_launches(bool on) noexcept;

/// Whether this thread records a graph on the device: kernels may be met for the first time then.
[[nodiscard]] bool is_recording(int index) noexcept;

/// What follows each launch: counts and remembers it, and waits for it when asked to. Throws DeviceError.
void after_launch(const Stream& stream);

/// Starts `kernel<<<grid, block, shared_bytes, stream>>>(args...)` on the stream's device. A grid with no
/// block starts nothing, so that ops need not ask whether there are elements. Throws DeviceError that names
/// the op and the CUDA error.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, const Stream& stream,
            Args&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const DeviceGuard guard(stream.device().index);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = native(stream);
  // The first use of a kernel loads its module, which drivers before CUDA 12.3 count among the calls that a
  // capture forbids.
  std::optional<RelaxedCapture> relaxed;
  if (is_recording(stream.device().index)) relaxed.emplace();
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), "the kernel launch");
  after_launch(stream);
}

}  // namespace mezzo::cuda
