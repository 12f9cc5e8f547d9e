#include "mezzo/core/cuda/memory_pool.h"

#include <cuda_runtime.h>

#include <cstring>
#include <utility>

#include "mezzo/core/backend.h"
#include "mezzo/core/cuda/caching_allocator.h"
#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/error.h"

namespace mezzo::cuda {

namespace {

constinit thread_local MemoryPool* pool_of_thread = nullptr;

}  // namespace

MemoryPool::MemoryPool(Device device) : device_(device) {
  if (!device.is_cuda())
    throw DeviceError("MemoryPool", "a CUDA device", to_string(device), "the CPU captures no graphs");
  static_cast<void>(backend(device));  // throws when it is not there
}

MemoryPool::~MemoryPool() {
  if (CachingAllocator* const memory = existing_allocator(device_.index)) memory->pool_gone(*this);
  const RelaxedCapture relaxed;
  for (void* const memory : kept_) static_cast<void>(cudaFreeHost(memory));
}

const void* MemoryPool::keep(const void* host, std::size_t bytes) {
  const DeviceGuard guard(device_.index);
  const RelaxedCapture relaxed;
  kept_.reserve(kept_.size() + 1);
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  kept_.push_back(memory);
  std::memcpy(memory, host, bytes);
  return memory;
}

MemoryPoolScope::MemoryPoolScope(MemoryPool& pool) : previous_(pool_of_thread), index_(pool.device().index) {
  caching_allocator(index_).capture_begins();
  pool_of_thread = &pool;
}

MemoryPoolScope::~MemoryPoolScope() {
  pool_of_thread = previous_;
  caching_allocator(index_).capture_ends();
}

MemoryPool* active_pool(int index) noexcept {
  return pool_of_thread != nullptr && pool_of_thread->device().index == index ? pool_of_thread : nullptr;
}

}  // namespace mezzo::cuda
