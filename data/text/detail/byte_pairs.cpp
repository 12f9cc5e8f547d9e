// A linked list of the word's tokens and a heap of its pairs. Pairs that are gone stay in the heap until it
// is their turn.
#include "mezzo/data/text/detail/byte_pairs.h"

#include <bit>
#include <utility>

namespace mezzo::data::detail {

MergeTable::MergeTable(std::vector<Merge> by_rank) : by_rank_(std::move(by_rank)) {
  const std::size_t size = std::bit_ceil(by_rank_.size() * 2 + 2);
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(size));
  slots_.assign(size, kNone);
  for (std::uint32_t rank = 0; rank < by_rank_.size(); ++rank) {
    const Merge& merge = by_rank_[rank];
    std::size_t at = slot_of(merge.left, merge.right);
    while (slots_[at] != kNone &&
           (by_rank_[slots_[at]].left != merge.left || by_rank_[slots_[at]].right != merge.right))
      at = (at + 1) & (size - 1);
    slots_[at] = rank;
  }
}

void WordEncoder::consider(std::uint32_t at, const MergeTable& merges) {
  const Symbol& left = symbols_[at];
  if (left.next == kEnd) return;
  const std::uint32_t rank = merges.rank_of(left.token, symbols_[left.next].token);
  if (rank != MergeTable::kNone) pairs_.push(std::uint64_t{rank} << 32U | at);
}

void WordEncoder::merge(std::uint32_t at, const MergeTable::Merge& merge, const MergeTable& merges) {
  Symbol& left = symbols_[at];
  if (left.token != merge.left || left.next == kEnd || symbols_[left.next].token != merge.right) return;
  Symbol& right = symbols_[left.next];
  left.token = merge.result;
  right.token = -1;
  left.next = right.next;
  if (left.next != kEnd) symbols_[left.next].previous = at;
  consider(at, merges);
  if (left.previous != kEnd) consider(left.previous, merges);
}

void WordEncoder::encode(std::string_view word, const std::array<std::int32_t, 256>& byte_tokens,
                         const MergeTable& merges, std::vector<std::int32_t>& out) {
  const auto size = static_cast<std::uint32_t>(word.size());
  symbols_.clear();
  for (std::uint32_t i = 0; i < size; ++i) {
    symbols_.push_back({.token = byte_tokens[static_cast<unsigned char>(word[i])],
                        .previous = i == 0 ? kEnd : i - 1,
                        .next = i + 1 == size ? kEnd : i + 1});
  }
  for (std::uint32_t i = 0; i < size; ++i) consider(i, merges);
  while (!pairs_.empty()) {
    // All places of the lowest rank, before pairs that come of these: one of them may have a lower rank yet.
    const auto rank = static_cast<std::uint32_t>(pairs_.top() >> 32U);
    places_.clear();
    for (; !pairs_.empty() && pairs_.top() >> 32U == rank; pairs_.pop())
      places_.push_back(static_cast<std::uint32_t>(pairs_.top()));
    for (const std::uint32_t place : places_) merge(place, merges[rank], merges);
  }
  for (std::uint32_t at = size == 0 ? kEnd : 0; at != kEnd; at = symbols_[at].next)
    out.push_back(symbols_[at].token);
  // A word of megabytes is rare; its memory is not kept.
  constexpr std::uint32_t kKept = 65536;
  if (size > kKept) *this = WordEncoder();
}

}  // namespace mezzo::data::detail
