// The side of the caching allocator that faces the device: segments come and go, heaps are merged when their
// stream or pool ends.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "mezzo/core/cuda/caching_allocator.h"
#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/memory_pool.h"
#include "mezzo/core/error.h"

namespace mezzo::cuda {

namespace {

std::size_t segment_size(std::size_t size) {
  if (size <= kSmallRequest) return kSmallSegment;
  if (size < kSharedRequest) return kLargeSegment;
  const std::size_t rounded = (size + kSmallSegment - 1) / kSmallSegment * kSmallSegment;
  return std::max(rounded, size);  // what does not fit into a number fails at the device
}

}  // namespace

Heap& CachingAllocator::heap_for(const Stream& stream, const MemoryPool* pool, bool small) {
  for (const std::unique_ptr<Heap>& heap : heaps_) {
    if (heap->stream == &stream && heap->small == small && heap->pool == pool) return *heap;
  }
  return *heaps_.emplace_back(std::make_unique<Heap>(Heap{&stream, pool, small, {}}));
}

// A block of at least `size` bytes from the device. Unused segments, none of which is large enough, go back
// first when the device has no more, and where the sizes of a program vary so that twice its peak would be
// taken.
Block& CachingAllocator::grow(Heap& heap, std::size_t size, std::size_t asked) {
  // Memory for the records first: nothing may fail once the device has given memory.
  if (segments_.size() == segments_.capacity()) {
    segments_.reserve(std::max<std::size_t>(64, 2 * segments_.size()));
  }
  auto segment = std::make_unique<Segment>();
  const auto recycle = [this](Block* block) { records_.recycle(*block); };
  std::unique_ptr<Block, decltype(recycle)> block(&records_.make(), recycle);

  std::size_t take = cached_ || heap.pool != nullptr ? segment_size(size) : size;
  constexpr std::int64_t kFloor = std::int64_t{64} << 20U;
  const auto more = static_cast<std::int64_t>(std::min(take, SIZE_MAX / 4));
  const bool much = (stats_.reserved + more - kFloor) / 2 > std::max(stats_.peak, stats_.current + more);
  if (much && captures_ == 0) give_back_whole_segments();
  void* memory = from_device(take, heap);
  if (memory == nullptr && captures_ == 0) {
    collect(true);
    if (Block* const freed = heap.take(size)) return *freed;
    give_back_whole_segments();
    memory = from_device(take, heap);
  }
  if (memory == nullptr && take > size) {
    take = size;
    memory = from_device(take, heap);
  }
  if (memory == nullptr) out_of_memory(asked);
  segment->size = take;
  block->address = static_cast<std::byte*>(memory);
  add_segment(std::move(segment), *block, heap);
  return *block.release();
}

// nullptr when the device does not have that much memory.
void* CachingAllocator::from_device(std::size_t size, const Heap& heap) {
  if (size > SIZE_MAX / 2) return nullptr;  // no device has it, and CUDA may call it a wrong argument
  const DeviceGuard guard(index_);
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  const bool shared = cached_ || heap.pool != nullptr;
  const cudaError_t status =
      shared ? cudaMalloc(&memory, size) : cudaMallocAsync(&memory, size, native(*heap.stream));
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  check(status, shared ? "cudaMalloc" : "cudaMallocAsync");
  return memory;
}

void CachingAllocator::add_segment(std::unique_ptr<Segment> segment, Block& block, Heap& heap) noexcept {
  ++stats_.system_allocations;
  stats_.reserved += static_cast<std::int64_t>(segment->size);
  segment->heap = &heap;
  segment->first = &block;
  segment->place = segments_.size();
  segment->stream_ordered = !cached_ && heap.pool == nullptr;
  block.size = segment->size;
  block.segment = segment.get();
  segments_.push_back(std::move(segment));
}

// Gives a segment without a block in use to the device.
void CachingAllocator::drop_segment(Segment& segment) noexcept {
  Block& block = *segment.first;
  segment.heap->remove(block);
  if (segment.stream_ordered) {
    static_cast<void>(cudaFreeAsync(block.address, native(*segment.heap->stream)));
  } else {
    static_cast<void>(cudaFree(block.address));
  }
  stats_.reserved -= static_cast<std::int64_t>(segment.size);
  records_.recycle(block);
  const std::size_t place = segment.place;
  if (place + 1 != segments_.size()) {
    std::swap(segments_[place], segments_.back());
    segments_[place]->place = place;
  }
  segments_.pop_back();
}

void CachingAllocator::wait_for_device() const noexcept {
  try {
    const DeviceGuard guard(index_);
    static_cast<void>(cudaDeviceSynchronize());
  } catch (const std::exception&) {
    // The device is lost, so nothing runs on it.
  }
}

void CachingAllocator::give_back_whole_segments() noexcept {
  // Kernels that were started before the blocks were freed may still run.
  wait_for_device();
  const RelaxedCapture relaxed;
  for (std::size_t i = segments_.size(); i-- > 0;) {
    if (segments_[i]->heap->pool == nullptr && segments_[i]->whole()) drop_segment(*segments_[i]);
  }
}

void CachingAllocator::empty_cache() {
  const std::scoped_lock lock(mutex_);
  if (captures_ > 0) {
    throw StateError("empty_cache", "no capture to be going on", "one on " + to_string(Device::cuda(index_)),
                     "call it before or after the captured step");
  }
  const DeviceGuard guard(index_);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  collect(true);
  give_back_whole_segments();
}

// Moves all blocks of `from` to `into`.
void CachingAllocator::merge_heap(Heap& from, Heap& into) noexcept {
  for (const std::unique_ptr<Segment>& segment : segments_) {
    if (segment->heap == &from) segment->heap = &into;
  }
  into.free.merge(from.free);
}

void CachingAllocator::stream_gone(const Stream& stream) noexcept {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < heaps_.size(); ++i) {  // heap_for may add heaps at the end
    Heap& heap = *heaps_[i];
    if (heap.stream != &stream) continue;
    merge_heap(heap, heap_for(default_stream_, heap.pool, heap.small));
  }
  std::erase_if(heaps_, [&](const std::unique_ptr<Heap>& heap) { return heap->stream == &stream; });
  for (const std::unique_ptr<Segment>& segment : segments_) {
    for (Block* block = segment->first; block != nullptr; block = block->after) {
      std::erase(block->users, &stream);
    }
  }
  for (StreamWaits& of_stream : waits_) {
    if (of_stream.stream != &stream) continue;
    for (const Wait& wait : of_stream.waits) {
      if (--wait.block->waits == 0) free_block(*wait.block);
    }
    of_stream.waits.clear();
  }
  std::erase_if(waits_, [&](const StreamWaits& of_stream) { return of_stream.stream == &stream; });
}

void CachingAllocator::pool_gone(MemoryPool& pool) noexcept {
  const std::scoped_lock lock(mutex_);
  if (captures_ == 0) {
    if (pool.held_ != nullptr) wait_for_device();
    while (pool.held_ != nullptr) {
      Block* const block = std::exchange(pool.held_, std::exchange(pool.held_->chain, nullptr));
      free_used(*block);
    }
    dissolve(&pool);
    return;
  }
  // Waiting for the device would end the capture, so the memory goes when that has ended.
  for (const std::unique_ptr<Heap>& heap : heaps_) {
    if (heap->pool == &pool) heap->pool = ended_pools();
  }
  while (pool.held_ != nullptr) {
    Block* const block = std::exchange(pool.held_, pool.held_->chain);
    block->chain = std::exchange(deferred_, block);
  }
}

// Gives the pool's unused memory back to the device; blocks that tensors hold move to the heaps outside of
// pools.
void CachingAllocator::dissolve(const MemoryPool* pool) noexcept {
  const auto is_its = [&](const std::unique_ptr<Heap>& heap) { return heap->pool == pool; };
  if (std::none_of(heaps_.begin(), heaps_.end(), is_its)) return;
  wait_for_device();
  collect(true);
  const RelaxedCapture relaxed;
  for (std::size_t i = segments_.size(); i-- > 0;) {
    if (segments_[i]->heap->pool == pool && segments_[i]->whole()) drop_segment(*segments_[i]);
  }
  for (const std::unique_ptr<Heap>& heap : heaps_) {  // those merged into are there from the start
    if (heap->pool == pool) merge_heap(*heap, heap_for(default_stream_, nullptr, heap->small));
  }
  std::erase_if(heaps_, is_its);
}

}  // namespace mezzo::cuda
