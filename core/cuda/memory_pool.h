// Memory of one captured graph. A graph is replayed with the addresses it was captured with, so what it uses
// must not go to anybody else while it lives.
#pragma once

#include <cstddef>
#include <vector>

#include "mezzo/core/cuda.h"

namespace mezzo::detail {
struct Block;
}

namespace mezzo::cuda {

/// A private pool of device memory, and constants in pinned host memory. Keep it exactly as long as the
/// graphs captured with it. Neither copied nor moved: blocks refer to it.
class MemoryPool : mezzo::detail::NoCopy {
 public:
  /// Throws DeviceError when the device is not there.
  explicit MemoryPool(Device device = Device::cuda(0));
  /// Waits for the device, then returns the memory to it; during another capture, at that capture's end.
  /// Tensors that still hold some of the memory stay valid.
  ~MemoryPool();

  [[nodiscard]] Device device() const noexcept { return device_; }
  /// A copy of `bytes` bytes in pinned host memory that lives as long as the pool: where a captured copy from
  /// the host reads at every replay. Throws OutOfMemoryError. Not for several threads at once.
  [[nodiscard]] const void* keep(const void* host, std::size_t bytes);

 private:
  friend class CachingAllocator;

  Device device_;
  std::vector<void*> kept_;
  // Blocks from outside of the pool that were freed during the capture: the graph may use them.
  mezzo::detail::Block* held_ = nullptr;
};

/// While it lives, memory that this thread allocates on the pool's device comes from the pool, and a capture
/// is taken to be going on: no event is asked and nothing goes back to the device. Memory from elsewhere that
/// this thread frees once work is captured stays with the pool, as a replay may use it. To be made before
/// cudaStreamBeginCapture and to end after cudaStreamEndCapture of the device's current stream.
class MemoryPoolScope : mezzo::detail::NoCopy {
 public:
  explicit MemoryPoolScope(MemoryPool& pool);
  ~MemoryPoolScope();

 private:
  friend MemoryPool* active_pool(int index) noexcept;
  friend MemoryPool* recorded_pool(int index) noexcept;

  MemoryPool& pool_;
  const Stream& stream_;
  MemoryPoolScope* previous_;
};

/// While it lives, this thread allocates as if there were no MemoryPoolScope: memory that something outside
/// of the graph writes before each replay. Memory of the pool will not do, as other work of the graph may
/// have used the same block earlier in the step.
class OrdinaryMemoryScope : mezzo::detail::NoCopy {
 public:
  OrdinaryMemoryScope() noexcept;
  ~OrdinaryMemoryScope();

 private:
  MemoryPoolScope* previous_;
};

/// The pool of the thread's innermost MemoryPoolScope when it is on this device, else nullptr.
[[nodiscard]] MemoryPool* active_pool(int index) noexcept;
/// active_pool() once the capture holds work, else nullptr.
[[nodiscard]] MemoryPool* recorded_pool(int index) noexcept;

}  // namespace mezzo::cuda
