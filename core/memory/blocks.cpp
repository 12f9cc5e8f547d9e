// Best fit among the free blocks of a heap, splitting and merging of blocks, and the hash table from
// address to block. Host memory is allocated only for new block records and when the table grows.
#include "mezzo/core/memory/blocks.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace mezzo::detail {

bool SmallerBlock::operator()(const Block* a, const Block* b) const noexcept {
  return a->size != b->size ? a->size < b->size : a->address < b->address;
}
bool SmallerBlock::operator()(const Block* a, std::size_t size) const noexcept { return a->size < size; }
bool SmallerBlock::operator()(std::size_t size, const Block* b) const noexcept { return size < b->size; }

Block* Heap::take(std::size_t size) {
  const auto found = free.lower_bound(size);
  if (found == free.end()) return nullptr;
  Block* const block = *found;
  remove(*block);
  return block;
}

void Heap::put(Block& block) noexcept {
  block.place = free.insert(std::move(block.node)).position;
  block.is_free = true;
}

void Heap::remove(Block& block) noexcept {
  block.node = free.extract(block.place);
  block.is_free = false;
}

Block& BlockRecords::make() {
  if (unused_ != nullptr) return *std::exchange(unused_, std::exchange(unused_->chain, nullptr));
  Block& block = records_.emplace_back();
  FreeBlocks maker{&block};
  block.node = maker.extract(maker.begin());
  return block;
}

void BlockRecords::recycle(Block& block) noexcept {
  block.asked = block.given_back = 0;
  block.segment = nullptr;
  block.before = block.after = nullptr;
  block.in_use = false;
  block.waits = 0;
  block.users.clear();
  block.chain = std::exchange(unused_, &block);
}

std::size_t BlockTable::bucket(const void* address) const noexcept {
  // Addresses are multiples of 512 at least; the product spreads what is left over the high bits.
  const std::uint64_t key = reinterpret_cast<std::uintptr_t>(address) >> 9;
  return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> 32) & (buckets_.size() - 1);
}

void BlockTable::reserve_one() {
  if (count_ < buckets_.size()) return;
  std::vector<Block*> former(buckets_.empty() ? 1024 : buckets_.size() * 2);
  std::swap(former, buckets_);
  count_ = 0;
  for (Block* block : former) {
    while (block != nullptr) insert(*std::exchange(block, block->chain));
  }
}

void BlockTable::insert(Block& block) noexcept {
  Block*& head = buckets_[bucket(block.address)];
  block.chain = std::exchange(head, &block);
  ++count_;
}

Block* BlockTable::find(const void* address) const noexcept {
  if (buckets_.empty()) return nullptr;
  Block* block = buckets_[bucket(address)];
  while (block != nullptr && block->address != address) block = block->chain;
  return block;
}

Block* BlockTable::remove(const void* address) noexcept {
  if (buckets_.empty()) return nullptr;
  Block** link = &buckets_[bucket(address)];
  while (*link != nullptr && (*link)->address != address) link = &(*link)->chain;
  if (*link == nullptr) return nullptr;
  --count_;
  Block* const block = *link;
  *link = std::exchange(block->chain, nullptr);
  return block;
}

void split(Block& block, std::size_t size, BlockRecords& records) {
  Block& rest = records.make();
  rest.address = block.address + size;
  rest.size = block.size - size;
  rest.given_back = std::min(block.given_back, rest.size);
  block.given_back -= rest.given_back;
  rest.segment = block.segment;
  rest.before = &block;
  rest.after = std::exchange(block.after, &rest);
  if (rest.after != nullptr) rest.after->before = &rest;
  block.size = size;
  block.segment->heap->put(rest);
}

namespace {

// `block` grows by its right neighbour, whose record goes. Given-back bytes of `block` that then lie in its
// middle no longer count as given back.
void absorb(Block& block, Block& neighbour, BlockRecords& records) noexcept {
  const bool all = neighbour.given_back == neighbour.size;
  block.given_back = neighbour.given_back + (all ? block.given_back : 0);
  block.size += neighbour.size;
  block.after = neighbour.after;
  if (block.after != nullptr) block.after->before = &block;
  records.recycle(neighbour);
}

}  // namespace

Block& release(Block& block, BlockRecords& records) noexcept {
  Heap& heap = *block.segment->heap;
  Block* merged = &block;
  block.in_use = false;
  block.asked = 0;
  if (Block* const right = block.after; right != nullptr && right->is_free) {
    heap.remove(*right);
    absorb(block, *right, records);
  }
  if (Block* const left = block.before; left != nullptr && left->is_free) {
    heap.remove(*left);
    absorb(*left, block, records);
    merged = left;
  }
  heap.put(*merged);
  return *merged;
}

}  // namespace mezzo::detail
