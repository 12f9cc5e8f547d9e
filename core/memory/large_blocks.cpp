// Segments of 256 MiB are shared by blocks below 128 MiB; a larger block has a segment of its own, which
// smaller ones are cut from once it is free. Pages not written to yet take addresses, and no memory.
#include "mezzo/core/memory/large_blocks.h"

#include <algorithm>
#include <new>
#include <utility>

namespace mezzo::detail {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLeastRest = std::size_t{64} << 10U;  // what a block may have too much
constexpr std::size_t kShared = std::size_t{128} << 20U, kSharedSegment = std::size_t{256} << 20U;

std::size_t rounded(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

/// Makes a block that is in no heap one in use, and cuts off what it has too much.
void* LargeBlocks::use(Block& block, std::size_t size) {
  if (block.size - size >= kLeastRest) {
    try {
      split(block, size, records_);
    } catch (const std::bad_alloc&) {  // no record for the rest: it goes with the block
    }
  }
  reserved_ += std::exchange(block.given_back, 0);
  block.in_use = true;
  live_.insert(block);
  return block.address;
}

void* LargeBlocks::take(std::size_t bytes) {
  live_.reserve_one();
  const std::size_t size = rounded(bytes);
  // The first fit by age of segments and address: what is in use stays together at the beginning. The best
  // fit leaves more holes that nothing fits in.
  Block* block = nullptr;
  const auto place = [](const Block& of) { return std::pair(of.segment->place, of.address); };
  for (auto next = heap_.free.lower_bound(size); next != heap_.free.end(); ++next) {
    if (block == nullptr || place(**next) < place(*block)) block = *next;
  }
  if (block == nullptr) return nullptr;
  heap_.remove(*block);
  return use(*block, size);
}

void* LargeBlocks::grow(std::size_t bytes) {
  // Memory for the records first: nothing may fail once the system has given memory.
  live_.reserve_one();
  if (segments_.size() == segments_.capacity()) segments_.reserve(2 * segments_.size() + 16);
  auto segment = std::make_unique<Segment>();
  Block& block = records_.make();
  const std::size_t size = rounded(bytes);
  segment->size = size < kShared ? kSharedSegment : size;
  void* memory = backend_.allocate(segment->size, index_);
  if (memory == nullptr && segment->size > size) memory = backend_.allocate(segment->size = size, index_);
  if (memory == nullptr) {
    records_.recycle(block);
    return nullptr;
  }
  segment->heap = &heap_;
  segment->first = &block;
  segment->place = age_++;
  block.address = static_cast<std::byte*>(memory);
  block.size = block.given_back = segment->size;  // what nobody has written to takes no memory
  block.segment = segment.get();
  segments_.push_back(std::move(segment));
  return use(block, size);
}

void LargeBlocks::put(void* memory) noexcept {
  Block* const block = live_.remove(memory);
  if (block == nullptr) return;
  std::size_t given_back = 0;
  for (const Block* const neighbour : {block->before, block->after})
    if (neighbour != nullptr && neighbour->is_free) given_back += neighbour->given_back;
  reserved_ += given_back - release(*block, records_).given_back;
}

void LargeBlocks::drop(Segment& segment) noexcept {
  Block& block = *segment.first;
  heap_.remove(block);
  backend_.deallocate(block.address, block.size, index_);
  reserved_ -= block.size - block.given_back;
  records_.recycle(block);
}

void LargeBlocks::give_back(std::size_t bytes) noexcept {
  const std::size_t goal = reserved_ - std::min(bytes, reserved_);
  for (std::size_t i = segments_.size(); i-- > 0 && reserved_ > goal;) {
    if (!segments_[i]->whole()) continue;
    drop(*segments_[i]);
    segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (auto place = heap_.free.rbegin(); place != heap_.free.rend() && reserved_ > goal; ++place) {
    Block& block = **place;
    if (block.given_back == block.size) continue;
    backend_.discard(block.address, block.size, index_);
    reserved_ -= block.size - std::exchange(block.given_back, block.size);
  }
}

}  // namespace mezzo::detail
