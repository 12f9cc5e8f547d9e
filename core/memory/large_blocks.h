// LargeBlocks: the large blocks of a device, cut from segments. Free memory can be used for any size, and
// goes back to the system by itself. It knows no locks.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "mezzo/core/backend.h"
#include "mezzo/core/memory/blocks.h"

namespace mezzo::detail {

class LargeBlocks {
 public:
  LargeBlocks(Backend& backend, int index) noexcept : backend_(backend), index_(index) {}

  /// A block of so many bytes from free memory; nullptr where none is large enough. Throws: std::bad_alloc.
  [[nodiscard]] void* take(std::size_t bytes);
  /// One from a new segment; nullptr where the system has none. Throws: std::bad_alloc.
  [[nodiscard]] void* grow(std::size_t bytes);
  void put(void* memory) noexcept;
  /// Lets the system have so many bytes of free memory at least, or all of it: first segments without a block
  /// in use, the newest first, then pages of large free blocks.
  void give_back(std::size_t bytes) noexcept;
  /// Bytes taken from the system, at most: blocks in use and what is free.
  [[nodiscard]] std::size_t reserved() const noexcept { return reserved_; }

 private:
  [[nodiscard]] void* use(Block& block, std::size_t size);
  void drop(Segment& segment) noexcept;

  Backend& backend_;
  int index_;
  BlockRecords records_;
  BlockTable live_;
  Heap heap_;
  std::vector<std::unique_ptr<Segment>> segments_;  // from the oldest to the newest
  std::size_t age_ = 0;                             // segments so far
  std::size_t reserved_ = 0;
};

}  // namespace mezzo::detail
