// Private pools: which one a thread allocates from, and whether its capture holds any work yet.
#include "mezzo/core/cuda/memory_pool.h"

#include <cuda_runtime.h>

#include <cstring>
#include <utility>

#include "mezzo/core/backend.h"
#include "mezzo/core/cuda/allocator_events.h"
#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/error.h"

namespace mezzo::cuda {

namespace {

constinit thread_local MemoryPoolScope* innermost = nullptr;

/// Whether the stream's capture has work in it. Where CUDA does not tell, it may have.
bool has_recorded(const Stream& stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  std::size_t nodes = 0;
  cudaError_t answer = cudaStreamGetCaptureInfo(native(stream), &status, nullptr, &graph);
  if (answer == cudaSuccess && status == cudaStreamCaptureStatusNone) return false;
  if (answer == cudaSuccess && status == cudaStreamCaptureStatusActive)
    answer = cudaGraphGetNodes(graph, nullptr, &nodes);
  if (answer != cudaSuccess) static_cast<void>(cudaGetLastError());
  return answer != cudaSuccess || status != cudaStreamCaptureStatusActive || nodes > 0;
}

}  // namespace

MemoryPool::MemoryPool(Device device) : device_(device) {
  if (!device.is_cuda())
    throw DeviceError("MemoryPool", "a CUDA device", to_string(device), "the CPU captures no graphs");
  static_cast<void>(backend(device));  // throws when it is not there
}

MemoryPool::~MemoryPool() {
  pool_gone(device_.index, *this);
  const DeviceGuard guard(device_.index, std::nothrow);
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

MemoryPoolScope::MemoryPoolScope(MemoryPool& pool)
    : pool_(pool), stream_(current_stream(pool.device())), previous_(innermost) {
  capture_begins(pool.device().index);
  innermost = this;
}

MemoryPoolScope::~MemoryPoolScope() {
  innermost = previous_;
  capture_ends(pool_.device().index);
}

OrdinaryMemoryScope::OrdinaryMemoryScope() noexcept : previous_(std::exchange(innermost, nullptr)) {}
OrdinaryMemoryScope::~OrdinaryMemoryScope() { innermost = previous_; }

MemoryPool* active_pool(int index) noexcept {
  return innermost != nullptr && innermost->pool_.device().index == index ? &innermost->pool_ : nullptr;
}

MemoryPool* recorded_pool(int index) noexcept {
  MemoryPool* const pool = active_pool(index);
  return pool != nullptr && has_recorded(innermost->stream_) ? pool : nullptr;
}

}  // namespace mezzo::cuda
