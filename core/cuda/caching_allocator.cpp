// Best fit in heaps by stream and pool. Decides when a freed block may be used again (by events) and when
// memory goes back to the device.
#include "mezzo/core/cuda/caching_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "mezzo/core/cuda/allocator_events.h"
#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/memory_pool.h"
#include "mezzo/core/error.h"

namespace mezzo::cuda {

namespace {

constexpr std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

// The rest of a block becomes a block of its own when it is large enough for a request of its heap.
bool worth_keeping(std::size_t rest, const Heap& heap) {
  return heap.small ? rest >= kRounding : rest > kSmallRequest;
}

bool caching_wanted() {
  const char* const value = std::getenv("MEZZO_CUDA_CACHE");
  return value == nullptr || std::strcmp(value, "0") != 0;
}

}  // namespace

CachingAllocator::CachingAllocator(int index)
    : index_(index), cached_(caching_wanted()), default_stream_(default_stream(index)) {
  for (const bool small : {true, false}) static_cast<void>(heap_for(default_stream_, nullptr, small));
}

void* CachingAllocator::allocate(std::size_t bytes) {
  const Stream& stream = current_stream(index_);
  const MemoryPool* const pool = active_pool(index_);
  const std::scoped_lock lock(mutex_);
  if (captures_ == 0 && (!waits_.empty() || deferred_ != nullptr)) collect(false);
  // A size near the end of the number range stays as it is and fails at the device.
  const std::size_t size = bytes > SIZE_MAX / 2 ? bytes : round_up(bytes, kRounding);
  Heap& heap = heap_for(stream, pool, size <= kSmallRequest);
  live_.reserve_one();
  Block* block = heap.take(size);
  if (block == nullptr) block = &grow(heap, size, bytes);
  if (worth_keeping(block->size - size, heap)) try_split(*block, size);
  block->asked = bytes;
  block->in_use = true;
  live_.insert(*block);
  count_in(bytes);
  return block->address;
}

void CachingAllocator::try_split(Block& block, std::size_t size) noexcept {
  try {
    split(block, size, records_);
  } catch (const std::bad_alloc&) {  // no record for the rest: it goes with the block
  }
}

void CachingAllocator::count_in(std::size_t bytes) noexcept {
  ++stats_.allocations;
  stats_.current += static_cast<std::int64_t>(bytes);
  stats_.peak = std::max(stats_.peak, stats_.current);
}

void CachingAllocator::deallocate(void* memory, std::size_t /*bytes*/) noexcept {
  const std::scoped_lock lock(mutex_);
  Block* const block = live_.remove(memory);
  if (block == nullptr) return;
  stats_.current -= static_cast<std::int64_t>(block->asked);
  MemoryPool* const pool = captures_ > 0 ? recorded_pool(index_) : nullptr;
  if (pool != nullptr && block->segment->heap->pool != pool) {
    block->chain = std::exchange(pool->held_, block);
  } else {
    free_used(*block);
  }
}

void CachingAllocator::free_used(Block& block) noexcept {
  if (block.users.empty()) {
    free_block(block);
  } else {
    free_later(block);
  }
}

void CachingAllocator::free_block(Block& block) noexcept {
  Block& merged = release(block, records_);
  if (merged.segment->stream_ordered) drop_segment(*merged.segment);
}

void CachingAllocator::free_later(Block& block) noexcept {
  if (captures_ > 0) {
    block.chain = std::exchange(deferred_, &block);
    return;
  }
  try {
    record_waits(block);
  } catch (const std::exception&) {
    // No event could be had: waiting for the device is slow, but right.
    wait_for_device();
    block.users.clear();
  }
  if (block.waits == 0) free_block(block);
}

void CachingAllocator::record_waits(Block& block) {
  while (!block.users.empty()) {
    const Stream* const stream = block.users.back();
    auto found = std::find_if(waits_.begin(), waits_.end(),
                              [&](const StreamWaits& waits) { return waits.stream == stream; });
    if (found == waits_.end()) found = waits_.insert(waits_.end(), StreamWaits{stream, {}});
    Event event;
    if (!spare_events_.empty()) {
      event = std::move(spare_events_.back());
      spare_events_.pop_back();
    }
    event.record(*stream);
    found->waits.push_back({&block, std::move(event)});
    ++block.waits;
    block.users.pop_back();
  }
}

// Frees the blocks whose events have passed; `wait` waits for all of them first.
void CachingAllocator::collect(bool wait) noexcept {
  while (deferred_ != nullptr) {
    Block* const block = std::exchange(deferred_, std::exchange(deferred_->chain, nullptr));
    free_later(*block);
  }
  const RelaxedCapture relaxed;
  try {
    for (StreamWaits& of_stream : waits_) {
      while (!of_stream.waits.empty()) {
        Wait& first = of_stream.waits.front();
        if (wait) first.event.synchronize();
        if (!first.event.query()) break;
        spare_events_.push_back(std::move(first.event));
        Block& block = *first.block;
        of_stream.waits.pop_front();
        if (--block.waits == 0) free_block(block);
      }
    }
    std::erase_if(waits_, [](const StreamWaits& of_stream) { return of_stream.waits.empty(); });
  } catch (const std::exception&) {
    // The device failed; the next checked call says so. The blocks stay where they are.
  }
}

void CachingAllocator::record_stream(const void* memory, const Stream& stream) {
  const std::scoped_lock lock(mutex_);
  Block* const block = live_.find(memory);
  if (block == nullptr || block->segment->heap->stream == &stream) return;
  if (std::find(block->users.begin(), block->users.end(), &stream) == block->users.end()) {
    block->users.push_back(&stream);
  }
}

MemoryStats CachingAllocator::stats() {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  const std::scoped_lock lock(mutex_);
  stats_.peak = stats_.current;
}

void CachingAllocator::capture_begins() {
  const std::scoped_lock lock(mutex_);
  if (captures_ == 0) collect(false);
  ++captures_;
}

void CachingAllocator::capture_ends() noexcept {
  const std::scoped_lock lock(mutex_);
  if (--captures_ > 0) return;
  if (deferred_ != nullptr) wait_for_device();  // replays of a graph that ended meanwhile may use them
  dissolve(ended_pools());
}

bool CachingAllocator::is_captured() {
  const std::scoped_lock lock(mutex_);
  return captures_ > 0;
}

namespace {

// Never destroyed: tensors in static objects are freed after everything else.
std::array<std::atomic<CachingAllocator*>, kMaxDevices>& allocators() {
  static constinit std::array<std::atomic<CachingAllocator*>, kMaxDevices> made{};
  return made;
}

/// nullptr when nothing was allocated yet.
CachingAllocator* existing_allocator(int index) noexcept {
  return allocators()[static_cast<std::size_t>(index)].load(std::memory_order_acquire);
}

}  // namespace

CachingAllocator& caching_allocator(int index) {
  std::atomic<CachingAllocator*>& slot = allocators().at(static_cast<std::size_t>(index));
  if (CachingAllocator* const made = slot.load(std::memory_order_acquire)) return *made;
  auto fresh = std::make_unique<CachingAllocator>(index);
  CachingAllocator* expected = nullptr;
  if (slot.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *expected;
}

void record_memory_use(int index, const void* memory, const Stream& stream) {
  caching_allocator(index).record_stream(memory, stream);
}
void stream_gone(int index, const Stream& stream) noexcept {
  if (CachingAllocator* const made = existing_allocator(index)) made->stream_gone(stream);
}
void pool_gone(int index, MemoryPool& pool) noexcept {
  if (CachingAllocator* const made = existing_allocator(index)) made->pool_gone(pool);
}
void capture_begins(int index) { caching_allocator(index).capture_begins(); }
void capture_ends(int index) noexcept { caching_allocator(index).capture_ends(); }
bool is_captured(int index) {
  CachingAllocator* const made = existing_allocator(index);
  return made != nullptr && made->is_captured();
}

}  // namespace mezzo::cuda
