// Grids of as many blocks as a device has at work at a time, for kernels whose threads walk over their items
// by steps of the whole grid: one full wave, whatever the kernel's registers and the GPU. Not for kernels
// whose results depend on the number of blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/core/cuda/occupancy.h"
#include "mezzo/core/device.h"
#include "mezzo/kernels/cuda/grid.h"

namespace mezzo::kernels::cuda {

/// A grid of `kernel`, which takes no shared memory, for `items` pieces of work, one per thread and step.
template <class... Params>
[[nodiscard]] Grid resident_grid(void (*kernel)(Params...), std::int64_t items, Device device) {
  const unsigned threads = grid_for(items).threads;
  const std::int64_t blocks = (items + threads - 1) / threads;
  if (blocks <= 1) return {static_cast<unsigned>(blocks), threads};
  const unsigned resident =
      mezzo::cuda::resident_blocks(reinterpret_cast<const void*>(kernel), threads, 0, device.index);
  return {static_cast<unsigned>(std::min<std::int64_t>(blocks, resident)), threads};
}

}  // namespace mezzo::kernels::cuda
