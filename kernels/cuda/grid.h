// How many blocks and threads a kernel gets, and where a thread starts. Kernels walk by steps of the whole
// grid, so any number of blocks gives the same result.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "mezzo/core/device.h"
#include "mezzo/core/host_device.h"

namespace mezzo::kernels::cuda {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kThreads = 256;  ///< threads of a full block
/// Blocks beyond which a grid only adds start-up cost: every GPU of today holds fewer at a time.
inline constexpr std::int64_t kMostBlocks = 2048;

struct Grid {
  unsigned blocks, threads;
};

/// A grid for `items` independent pieces of work, one per thread and step. Few items get a small block.
[[nodiscard]] inline Grid grid_for(std::int64_t items) {
  const auto threads =
      static_cast<unsigned>(std::min<std::int64_t>((items + kWarp - 1) / kWarp * kWarp, kThreads));
  const std::int64_t blocks = (items + threads - 1) / threads;
  return {static_cast<unsigned>(std::min(blocks, kMostBlocks)), threads};
}

/// This thread's first item, and the step to its next: 64 bits, as there may be more than 2^32 of them.
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::int64_t grid_size() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

}  // namespace mezzo::kernels::cuda
