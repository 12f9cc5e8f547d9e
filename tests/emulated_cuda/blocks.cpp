// Marks of allocators on device memory.
#include "emulated_cuda/blocks.h"

#include <cstring>

#include "asan.h"
#include "copies.h"
#include "runtime.h"

namespace emulated_cuda {
namespace {

/// Queues `mark` for a block that has to be device memory then, and now.
template <class Mark>
cudaError_t queue_mark(void* block, std::size_t room, cudaStream_t stream, Mark mark) {
  if (room == 0) return cudaSuccess;
  {
    const std::lock_guard lock(runtime_mutex());
    const int device = device_of(block);
    if (device < 0 || !runtime().devices[static_cast<std::size_t>(device)]->owns(block, room)) {
      return cudaErrorInvalidValue;
    }
  }
  return enqueue(stream, [block, room, mark] {
    const int device = device_of(block);
    if (!runtime().devices[static_cast<std::size_t>(device)]->owns(block, room)) {
      fail_operation("a block's device memory was freed before its mark's turn");
    }
    asan::unpoison(block, room);
    std::memset(block, 0xff, room);
    mark();
  });
}

}  // namespace

cudaError_t block_taken(void* block, std::size_t bytes, std::size_t room, cudaStream_t stream) {
  if (bytes > room) return cudaErrorInvalidValue;
  return queue_mark(block, room, stream,
                    [=] { asan::poison(static_cast<std::byte*>(block) + bytes, room - bytes); });
}

cudaError_t block_returned(void* block, std::size_t room, cudaStream_t stream) {
  return queue_mark(block, room, stream, [=] { asan::poison(block, room); });
}

}  // namespace emulated_cuda
