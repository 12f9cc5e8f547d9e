// Classes are multiples of 64 bytes up to 512, and from there eight to each power of two.
#include "mezzo/core/memory/block_cache.h"

#include <bit>

namespace mezzo::detail {

namespace {

constexpr std::size_t kSmallest = 64, kEven = 512;
constexpr std::size_t kMost = std::size_t{1} << 62;  // no system has such memory

/// The power of two below `bytes`, above kEven: bytes are in (2^k, 2^(k + 1)].
unsigned power_below(std::size_t bytes) { return static_cast<unsigned>(std::bit_width(bytes - 1)) - 1; }

/// The size of the class at an index.
std::size_t size_of(std::size_t index) {
  return index < 8 ? (index + 1) * kSmallest : (index % 8 + 9) << (index / 8 + 5);
}

}  // namespace

std::size_t BlockCache::class_size(std::size_t bytes) noexcept {
  if (bytes > kMost) return bytes;
  const std::size_t step = bytes <= kEven ? kSmallest : std::size_t{1} << (power_below(bytes) - 3);
  return (bytes + step - 1) / step * step;
}

std::size_t BlockCache::index_of(std::size_t size) noexcept {
  if (size <= kEven) return size / kSmallest - 1;
  const unsigned power = power_below(size);
  const std::size_t first = std::size_t{1} << power;
  return (power - 8) * 8 + (size - first) / (first / 8) - 1;
}

void* BlockCache::take(std::size_t size) noexcept {
  Class& found = classes_[index_of(size)];
  if (found.empty()) return nullptr;
  void* const memory = found.blocks.back().memory;
  found.blocks.pop_back();
  bytes_ -= size;
  return memory;
}

void BlockCache::put(void* memory, std::size_t size) {
  classes_[index_of(size)].blocks.push_back({memory, count_++});
  bytes_ += size;
}

BlockCache::Block BlockCache::take_oldest() noexcept {
  Class* oldest = nullptr;
  const auto number = [](const Class& blocks) { return blocks.blocks[blocks.first].number; };
  for (Class& blocks : classes_) {
    if (!blocks.empty() && (oldest == nullptr || number(blocks) < number(*oldest))) oldest = &blocks;
  }
  if (oldest == nullptr) return {nullptr, 0};
  const std::size_t size = size_of(static_cast<std::size_t>(oldest - classes_.data()));
  void* const memory = oldest->blocks[oldest->first++].memory;
  if (2 * oldest->first >= oldest->blocks.size()) {  // so that a block costs one move
    oldest->blocks.erase(oldest->blocks.begin(),
                         oldest->blocks.begin() + static_cast<std::ptrdiff_t>(oldest->first));
    oldest->first = 0;
  }
  bytes_ -= size;
  return {memory, size};
}

}  // namespace mezzo::detail
