// The stream-ordered caching allocator of a CUDA device. Memory that is freed on its own stream can be used
// there again at once, because work in a stream runs in order; no call of the runtime is made for it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/core/memory/blocks.h"

namespace mezzo::cuda {

using mezzo::detail::Block;
using mezzo::detail::BlockRecords;
using mezzo::detail::BlockTable;
using mezzo::detail::Heap;
using mezzo::detail::Segment;

/// All sizes are multiples of this.
inline constexpr std::size_t kRounding = 512;
/// The largest request that is cut from small segments.
inline constexpr std::size_t kSmallRequest = std::size_t{1} << 20;
inline constexpr std::size_t kSmallSegment = std::size_t{2} << 20;
/// Requests below this share segments of kLargeSegment; from it on each has one of its own.
inline constexpr std::size_t kSharedRequest = std::size_t{10} << 20;
inline constexpr std::size_t kLargeSegment = std::size_t{20} << 20;

/// One device's memory. Blocks live in heaps by stream, private pool and size class; segments from the device
/// are cut for the best fit and free neighbours grow together. Environment: MEZZO_CUDA_CACHE=0 turns caching
/// off (cudaMallocAsync and cudaFreeAsync per block), so that a memory checker sees every block.
class CachingAllocator final : public DeviceAllocator {
 public:
  explicit CachingAllocator(int index);

  /// Memory for work in the current stream, from the thread's MemoryPoolScope if there is one. Throws
  /// OutOfMemoryError with a table of the memory held, after giving unused memory back did not help.
  [[nodiscard]] void* allocate(std::size_t bytes) override;
  /// Within a MemoryPoolScope a block from elsewhere stays with the pool once work is captured: a replay may
  /// use it.
  void deallocate(void* memory, std::size_t bytes) noexcept override;
  [[nodiscard]] MemoryStats stats() override;
  void reset_peak() override;
  /// Waits for the device and gives it all segments without a block in use, except segments of private pools.
  /// Throws StateError during a capture.
  void empty_cache() override;
  [[nodiscard]] std::string summary() override;

  /// Keeps the block that starts at `memory` from being used again before the work that is in `stream` when
  /// the block is freed has run. Unknown addresses are ignored.
  void record_stream(const void* memory, const Stream& stream);
  /// For a stream that ends, after its work has run: its memory goes to the default stream.
  void stream_gone(const Stream& stream) noexcept;
  /// For a pool that ends, when no graph uses its memory any more: unused memory goes back to the device, and
  /// blocks that tensors still hold become blocks of the default pool. Blocks from elsewhere that it kept go
  /// back to their heaps.
  void pool_gone(MemoryPool& pool) noexcept;
  /// Between these two calls a graph is being captured: no event is asked and nothing is given back. The pool
  /// of that graph must live longer than the capture.
  void capture_begins();
  void capture_ends() noexcept;
  [[nodiscard]] bool is_captured();

 private:
  struct Wait {
    Block* block;
    Event event;
  };
  struct StreamWaits {
    const Stream* stream;
    std::deque<Wait> waits;  // in the order of the stream
  };

  [[nodiscard]] Heap& heap_for(const Stream& stream, const MemoryPool* pool, bool small);
  [[nodiscard]] Block& grow(Heap& heap, std::size_t size, std::size_t asked);
  [[nodiscard]] void* from_device(std::size_t size, const Heap& heap);
  void add_segment(std::unique_ptr<Segment> segment, Block& block, Heap& heap) noexcept;
  void try_split(Block& block, std::size_t size) noexcept;
  void drop_segment(Segment& segment) noexcept;
  void give_back_whole_segments() noexcept;
  void free_used(Block& block) noexcept;
  void free_block(Block& block) noexcept;
  void free_later(Block& block) noexcept;
  void record_waits(Block& block);
  void collect(bool wait) noexcept;
  void count_in(std::size_t bytes) noexcept;
  void dissolve(const MemoryPool* pool) noexcept;
  /// Stands for a pool that ended during a capture; no pool has this address.
  [[nodiscard]] const MemoryPool* ended_pools() const noexcept {
    return reinterpret_cast<const MemoryPool*>(this);
  }
  void merge_heap(Heap& from, Heap& into) noexcept;
  void wait_for_device() const noexcept;
  [[noreturn]] void out_of_memory(std::size_t asked);
  [[nodiscard]] std::string table();

  int index_;
  bool cached_;
  const Stream& default_stream_;
  std::mutex mutex_;
  BlockRecords records_;
  BlockTable live_;  // blocks that tensors hold
  std::vector<std::unique_ptr<Heap>> heaps_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::list<StreamWaits> waits_;
  std::vector<Event> spare_events_;
  Block* deferred_ = nullptr;  // freed during a capture, with other users or by the end of a pool
  int captures_ = 0;
  MemoryStats stats_;
};

/// The allocator of a device, made at the first call and never destroyed.
[[nodiscard]] CachingAllocator& caching_allocator(int index);

}  // namespace mezzo::cuda
