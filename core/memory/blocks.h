// The data structures of the caching allocators, the CPU's of large blocks and CUDA's: segments that came
// from the device, the blocks they are cut into, and heaps of free blocks. Nothing here asks for host memory
// once a program repeats its steps: free blocks move between sets with their tree nodes, and block records
// are used again.
#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <vector>

namespace mezzo::cuda {
class Stream;
class MemoryPool;
}  // namespace mezzo::cuda

namespace mezzo::detail {

/// Whether a block of the CPU is worth a search, and comes from the system by itself, so that it goes back as
/// one: malloc keeps what lies below a block that is still in use. Under AddressSanitizer all are malloc's,
/// whose blocks it watches.
[[nodiscard]] constexpr bool is_large_block([[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  return false;
#else
  return bytes >= std::size_t{256} << 10U;
#endif
}

struct Block;
struct Segment;

/// Orders blocks by size, then address: the first block that is not smaller is the best fit.
struct SmallerBlock {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const noexcept;
  bool operator()(const Block* a, std::size_t size) const noexcept;
  bool operator()(std::size_t size, const Block* b) const noexcept;
};
using FreeBlocks = std::set<Block*, SmallerBlock>;

/// A piece of a segment, in use or free.
struct Block {
  std::byte* address = nullptr;
  std::size_t size = 0;        ///< bytes
  std::size_t asked = 0;       ///< bytes that the user of the block asked for
  std::size_t given_back = 0;  ///< bytes at the end of a free block that take no memory (CPU)
  Segment* segment = nullptr;
  Block* before = nullptr;  ///< neighbours in the segment
  Block* after = nullptr;
  Block* chain =
      nullptr;           ///< next in a bucket of BlockTable, or in a list of records, deferred or held blocks
  bool in_use = false;   ///< held by a tensor or a graph, or freed and waiting for other streams
  bool is_free = false;  ///< in its heap
  int waits = 0;         ///< events of other streams that must pass before the block is free
  std::vector<const cuda::Stream*> users;  ///< other streams that use the memory
  FreeBlocks::iterator place;              ///< in the heap, while free
  FreeBlocks::node_type node;              ///< the tree node, while not free
};

/// The free blocks of the CPU, or of one stream, private pool and size class.
struct Heap {
  const cuda::Stream* stream = nullptr;
  const cuda::MemoryPool* pool = nullptr;  ///< nullptr: everybody's
  bool small = false;
  FreeBlocks free;

  /// The smallest free block of at least `size` bytes, taken out; nullptr when there is none.
  [[nodiscard]] Block* take(std::size_t size);
  void put(Block& block) noexcept;
  void remove(Block& block) noexcept;
};

/// Memory as it came from the device.
struct Segment {
  Heap* heap = nullptr;
  Block* first = nullptr;
  std::size_t size = 0;
  std::size_t place = 0;        ///< in the order of the allocator's list
  bool stream_ordered = false;  ///< from cudaMallocAsync

  /// Whether no byte of it is in use.
  [[nodiscard]] bool whole() const noexcept { return first->is_free && first->after == nullptr; }
};

/// Records of blocks, made in bulk and used again.
class BlockRecords {
 public:
  /// A record with a tree node and all else empty. Throws std::bad_alloc.
  [[nodiscard]] Block& make();
  void recycle(Block& block) noexcept;

 private:
  std::deque<Block> records_;
  Block* unused_ = nullptr;
};

/// Finds a block by its address: a hash table whose chains run through the blocks.
class BlockTable {
 public:
  /// Makes room for one more, so that `insert` cannot fail. Throws std::bad_alloc.
  void reserve_one();
  void insert(Block& block) noexcept;
  [[nodiscard]] Block* find(const void* address) const noexcept;
  /// `find`, and takes the block out.
  [[nodiscard]] Block* remove(const void* address) noexcept;

 private:
  [[nodiscard]] std::size_t bucket(const void* address) const noexcept;

  std::vector<Block*> buckets_;
  std::size_t count_ = 0;
};

/// Cuts `block` to `size` bytes and puts the rest into its heap as a block of its own.
void split(Block& block, std::size_t size, BlockRecords& records);
/// Makes the block free, together with free neighbours. Returns the block that it is part of now.
Block& release(Block& block, BlockRecords& records) noexcept;

}  // namespace mezzo::detail
