// For allocators that cut blocks out of larger pieces of device memory: tells the emulated device which bytes
// are in use, so that reads of values that nobody has written, and accesses beyond a block or after its end,
// show there as they do for memory of cudaMalloc. Both calls queue: they take effect in the order of `stream`
// (or at each launch of the graph that it captures).
#pragma once

#include "emulated_cuda/types.h"

#pragma GCC visibility push(default)

namespace emulated_cuda {

/// From here on in `stream`, `bytes` of the block of `room` bytes may be used: they are filled with 0xFF, and
/// under AddressSanitizer the rest of the block is poisoned.
cudaError_t block_taken(void* block, std::size_t bytes, std::size_t room, cudaStream_t stream);

/// From here on in `stream`, nothing of the block may be used: it is filled with 0xFF and, under
/// AddressSanitizer, poisoned. Other streams must have finished with it.
cudaError_t block_returned(void* block, std::size_t room, cudaStream_t stream);

}  // namespace emulated_cuda

#pragma GCC visibility pop
