// BlockCache: free blocks of one device by size class, of which the oldest goes first. It knows neither locks
// nor the system.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mezzo::detail {

class BlockCache {
 public:
  struct Block {
    void* memory;
    std::size_t size;
  };

  /// The size of the class of such a request: a multiple of 64, and of blocks above 512 bytes at most an
  /// eighth more.
  [[nodiscard]] static std::size_t class_size(std::size_t bytes) noexcept;

  /// The block of a class that came last; nullptr where there is none.
  [[nodiscard]] void* take(std::size_t size) noexcept;
  /// Keeps a block of a class. Throws: std::bad_alloc.
  void put(void* memory, std::size_t size);
  /// Hands out the block that has been here longest; nullptr in an empty cache.
  [[nodiscard]] Block take_oldest() noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Entry {
    void* memory;
    std::uint64_t number;  ///< in the order in which blocks came
  };
  struct Class {
    std::vector<Entry> blocks;  ///< from the oldest to the newest
    std::size_t first = 0;      ///< blocks before it are gone
    [[nodiscard]] bool empty() const noexcept { return first == blocks.size(); }
  };
  static constexpr std::size_t kClasses = 448;
  [[nodiscard]] static std::size_t index_of(std::size_t size) noexcept;

  std::array<Class, kClasses> classes_;
  std::uint64_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace mezzo::detail
