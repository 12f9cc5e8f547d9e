// Byte-pair encoding of one word: which merges there are, and their order. Not for use outside of data.
#pragma once

#include <array>
#include <cstdint>
#include <queue>
#include <string_view>
#include <vector>

namespace mezzo::data::detail {

/// Merges by rank, found by their pair of tokens.
class MergeTable {
 public:
  struct Merge {
    std::int32_t left, right, result;
  };
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  MergeTable() = default;
  explicit MergeTable(std::vector<Merge> by_rank);

  [[nodiscard]] const Merge& operator[](std::uint32_t rank) const noexcept { return by_rank_[rank]; }
  [[nodiscard]] std::size_t size() const noexcept { return by_rank_.size(); }
  /// The rank of a pair, of the last one where it is there twice; kNone where it is not.
  [[nodiscard]] std::uint32_t rank_of(std::int32_t left, std::int32_t right) const noexcept {
    if (slots_.empty()) return kNone;
    for (std::size_t at = slot_of(left, right);; at = (at + 1) & (slots_.size() - 1)) {
      const std::uint32_t rank = slots_[at];
      if (rank == kNone || (by_rank_[rank].left == left && by_rank_[rank].right == right)) return rank;
    }
  }

 private:
  [[nodiscard]] std::size_t slot_of(std::int32_t left, std::int32_t right) const noexcept {
    const std::uint64_t key =
        std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> shift_);
  }

  std::vector<Merge> by_rank_;
  std::vector<std::uint32_t> slots_;  ///< ranks, by hash; a power of two of them, half of them free
  unsigned shift_ = 63;
};

/// Merges the bytes of words. Its working memory is kept for the next word.
class WordEncoder {
 public:
  /// Appends the tokens of `word`, which is shorter than 2^31 bytes. As OpenAI's encoder.py: of all pairs the
  /// pair of the lowest rank is merged wherever it is, from left to right, until no pair has a rank. n log n
  /// for n bytes.
  void encode(std::string_view word, const std::array<std::int32_t, 256>& byte_tokens,
              const MergeTable& merges, std::vector<std::int32_t>& out);

 private:
  static constexpr std::uint32_t kEnd = 0xFFFFFFFF;
  /// A token of the word, between its neighbours.
  struct Symbol {
    std::int32_t token;  ///< -1 once it has gone into the one before
    std::uint32_t previous, next;
  };
  struct Later {
    bool operator()(std::uint64_t a, std::uint64_t b) const noexcept { return a > b; }
  };

  void consider(std::uint32_t at, const MergeTable& merges);
  void merge(std::uint32_t at, const MergeTable::Merge& merge, const MergeTable& merges);

  std::vector<Symbol> symbols_;
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, Later>
      pairs_;  ///< rank and place of the left
  std::vector<std::uint32_t> places_;
};

}  // namespace mezzo::data::detail
