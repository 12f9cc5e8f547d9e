// The memory that row-wise kernels keep per thread.
#include "mezzo/kernels/cpu/rows.h"

#include <bit>
#include <new>

#include "mezzo/core/allocator.h"

namespace mezzo::kernels::cpu::detail {

namespace {

constexpr std::align_val_t kAlignment{64};

/// Blocks that a thread has given back, by size: powers of two.
class KeptBlocks {
 public:
  static constexpr std::size_t kLargest = std::size_t{1} << 16;

  KeptBlocks() = default;
  ~KeptBlocks() {
    for (const Blocks& blocks : sizes_) {
      for (std::size_t i = 0; i < blocks.count; ++i) ::operator delete(blocks.memory[i], kAlignment);
    }
  }
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;

  [[nodiscard]] void* take(std::size_t bytes) {
    Blocks& blocks = of_size(bytes);
    if (blocks.count > 0) return blocks.memory[--blocks.count];
    return ::operator new(std::bit_ceil(bytes), kAlignment);
  }
  void give(void* memory, std::size_t bytes) noexcept {
    Blocks& blocks = of_size(bytes);
    if (blocks.count < blocks.memory.size())
      blocks.memory[blocks.count++] = memory;
    else
      ::operator delete(memory, kAlignment);
  }

 private:
  struct Blocks {
    std::array<void*, 4> memory;  ///< as many as one kernel has of one size
    std::size_t count = 0;
  };
  [[nodiscard]] Blocks& of_size(std::size_t bytes) {
    return sizes_[static_cast<std::size_t>(std::bit_width(bytes - 1))];
  }
  std::array<Blocks, std::bit_width(kLargest)> sizes_{};
};
thread_local KeptBlocks kept;

[[nodiscard]] bool is_kept(std::size_t bytes) { return bytes > 0 && bytes <= KeptBlocks::kLargest; }

}  // namespace

void* take_row_scratch(std::size_t bytes) {
  return is_kept(bytes) ? kept.take(bytes) : mezzo::detail::allocate_bytes(bytes, Device::cpu());
}

void give_row_scratch(void* memory, std::size_t bytes) noexcept {
  if (is_kept(bytes))
    kept.give(memory, bytes);
  else
    mezzo::detail::deallocate_bytes(memory, bytes, Device::cpu());
}

}  // namespace mezzo::kernels::cpu::detail
