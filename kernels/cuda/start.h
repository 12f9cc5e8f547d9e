// How kernels start whose threads walk over their items by steps of the whole grid.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/core/device.h"
#include "mezzo/kernels/cuda/grid.h"

namespace mezzo::kernels::cuda {

/// Starts `kernel`, which takes no shared memory, for `items` pieces of work, one per thread and step.
template <class... Params, class... Args>
void start(Device device, std::int64_t items, void (*kernel)(Params...), const Args&... args) {
  if (items == 0) return;
  const Grid grid = grid_for(items);
  mezzo::cuda::launch(kernel, dim3(grid.blocks), dim3(grid.threads), 0, mezzo::cuda::current_stream(device),
                      args...);
}

/// start() with as many blocks as the device has at work at a time: one full wave, whatever the kernel's
/// registers and the GPU. Not for kernels whose results depend on the number of blocks.
template <class... Params, class... Args>
void start_resident(Device device, std::int64_t items, void (*kernel)(Params...), const Args&... args) {
  if (items == 0) return;
  Grid grid = grid_for(items);
  const std::int64_t blocks = (items + grid.threads - 1) / grid.threads;
  if (blocks > 1) {
    const unsigned resident =
        mezzo::cuda::resident_blocks(reinterpret_cast<const void*>(kernel), grid.threads, 0, device.index);
    grid.blocks = static_cast<unsigned>(std::min<std::int64_t>(blocks, resident));
  }
  mezzo::cuda::launch(kernel, dim3(grid.blocks), dim3(grid.threads), 0, mezzo::cuda::current_stream(device),
                      args...);
}

}  // namespace mezzo::kernels::cuda
