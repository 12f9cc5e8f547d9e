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

/// After each launch: counts and remembers it, and waits for it when asked to. Throws DeviceError.
void after_launch(const Stream& stream);

/// Blocks of `kernel`, of `threads` threads and with `shared_bytes` of dynamic shared memory, that run on
/// device `index` at a time; at least 1. CUDA is asked once for each combination. For grids whose number of
/// blocks changes no result: another device has another answer. Throws DeviceError.
[[nodiscard]] unsigned resident_blocks(const void* kernel, unsigned threads, std::size_t shared_bytes,
                                       int index);

/// The scope of a launch: the stream's device is the current one, and errors name the op. Here and not in
/// `launch`, which is compiled for every kernel.
class LaunchScope {
 public:
  LaunchScope(dim3 grid, dim3 block, std::size_t shared_bytes, const Stream& stream);
  [[nodiscard]] const cudaLaunchConfig_t* config() const { return &config_; }
  /// Throws DeviceError unless the launch succeeded and what follows it does.
  void finish(cudaError_t launched) const;

 private:
  const Stream& stream_;
  DeviceGuard device_;
  std::optional<RelaxedCapture> relaxed_;
  cudaLaunchConfig_t config_{};
};

/// Starts `kernel<<<grid, block, shared_bytes, stream>>>(args...)` on the stream's device. A grid with no
/// block starts nothing, so that ops need not ask whether there are elements. Throws DeviceError that names
/// the op and the CUDA error.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, const Stream& stream,
            Args&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const LaunchScope scope(grid, block, shared_bytes, stream);
  scope.finish(cudaLaunchKernelEx(scope.config(), kernel, std::forward<Args>(args)...));
}

}  // namespace mezzo::cuda
