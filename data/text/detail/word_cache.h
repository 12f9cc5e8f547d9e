// The encoder's cache of words seen before. Not for use outside of data.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "mezzo/data/text/detail/byte_pairs.h"

namespace mezzo::data::detail {

/// Tokens of short words: each word has one place, and the last one there stays.
class WordCache {
 public:
  /// Appends the tokens of `word` where they are known.
  bool find(std::string_view word, std::vector<std::int32_t>& out) const {
    if (word.size() > kLongestWord || entries_.empty()) return false;
    const Key key = key_of(word);
    const Entry& entry = entries_[place_of(key)];
    if (entry.key != key || entry.count == 0) return false;
    out.insert(out.end(), entry.tokens.begin(), entry.tokens.begin() + entry.count);
    return true;
  }

  void keep(std::string_view word, std::span<const std::int32_t> tokens) {
    if (word.size() > kLongestWord || tokens.size() > kMostTokens) return;
    if (entries_.empty()) entries_.resize(kEntries);
    const Key key = key_of(word);
    Entry& entry = entries_[place_of(key)];
    entry.key = key;
    entry.count = static_cast<std::uint32_t>(tokens.size());
    std::memcpy(entry.tokens.data(), tokens.data(), tokens.size_bytes());
  }

 private:
  static constexpr std::size_t kEntries = std::size_t{1} << 15U;  // of 64 bytes: 2 MB
  static constexpr std::size_t kLongestWord = 23, kMostTokens = 9;
  /// A word's bytes, and its length in the last one.
  using Key = std::array<std::uint64_t, 3>;
  struct Entry {
    Key key{};
    std::uint32_t count = 0;
    std::array<std::int32_t, kMostTokens> tokens{};
  };
  static_assert(sizeof(Entry) == 64);

  static Key key_of(std::string_view word) noexcept {
    std::array<char, sizeof(Key)> bytes{};
    std::memcpy(bytes.data(), word.data(), word.size());
    bytes.back() = static_cast<char>(word.size());
    Key key{};
    std::memcpy(key.data(), bytes.data(), sizeof key);
    return key;
  }
  static std::size_t place_of(const Key& key) noexcept {
    std::uint64_t hash = key[0] * 0x9E3779B97F4A7C15U;
    hash = (hash ^ (hash >> 32U) ^ key[1]) * 0xC2B2AE3D27D4EB4FU;
    hash = (hash ^ (hash >> 32U) ^ key[2]) * 0x165667B19E3779F9U;
    return static_cast<std::size_t>(hash >> 49U);
  }

  std::vector<Entry> entries_;
};

/// The memory that a call of encode works in.
struct EncodeWorkspace {
  WordCache cache;
  WordEncoder encoder;
};

}  // namespace mezzo::data::detail
