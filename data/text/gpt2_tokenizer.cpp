// Reading of the vocabulary, the walk over a text's words, and what is remembered of words seen before.
#include "mezzo/data/text/gpt2_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/data/text/detail/token_ids.h"
#include "mezzo/data/text/detail/unicode.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/json.h"

namespace mezzo::data {

namespace detail {

/// Merges by rank, found by their pair of tokens.
class MergeTable {
 public:
  struct Merge {
    std::int32_t left, right, result;
  };
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  MergeTable() = default;
  explicit MergeTable(std::vector<Merge> by_rank) : by_rank_(std::move(by_rank)) {
    ranks_.reserve(by_rank_.size());
    for (std::uint32_t rank = 0; rank < by_rank_.size(); ++rank)
      ranks_[key_of(by_rank_[rank].left, by_rank_[rank].right)] = rank;
  }

  [[nodiscard]] const Merge& operator[](std::uint32_t rank) const noexcept { return by_rank_[rank]; }
  /// The rank of a pair, of the last one where it is there twice; kNone where it is not.
  [[nodiscard]] std::uint32_t rank_of(std::int32_t left, std::int32_t right) const noexcept {
    const auto found = ranks_.find(key_of(left, right));
    return found == ranks_.end() ? kNone : found->second;
  }

 private:
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) noexcept {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
  }

  std::vector<Merge> by_rank_;
  std::unordered_map<std::uint64_t, std::uint32_t> ranks_;
};

/// Merges the bytes of words: a linked list of the word's tokens and a heap of its pairs, where pairs that
/// are gone stay until it is their turn. Its working memory is kept for the next word.
class WordEncoder {
 public:
  /// Appends the tokens of `word`, which is shorter than 2^31 bytes. As OpenAI's encoder.py: of all pairs the
  /// pair of the lowest rank is merged wherever it is, from left to right, until no pair has a rank. n log n
  /// for n bytes.
  void encode(std::string_view word, const std::array<std::int32_t, 256>& byte_tokens,
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
      // All places of the lowest rank, before pairs that come of these: one of them may have a lower rank
      // yet.
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

 private:
  static constexpr std::uint32_t kEnd = 0xFFFFFFFF;
  /// A token of the word, between its neighbours.
  struct Symbol {
    std::int32_t token;  ///< -1 once it has gone into the one before
    std::uint32_t previous, next;
  };

  void consider(std::uint32_t at, const MergeTable& merges) {
    const Symbol& left = symbols_[at];
    if (left.next == kEnd) return;
    const std::uint32_t rank = merges.rank_of(left.token, symbols_[left.next].token);
    if (rank != MergeTable::kNone) pairs_.push(std::uint64_t{rank} << 32U | at);
  }
  void merge(std::uint32_t at, const MergeTable::Merge& merge, const MergeTable& merges) {
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

  std::vector<Symbol> symbols_;
  /// Rank and place of the left one, the least first.
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> pairs_;
  std::vector<std::uint32_t> places_;
};

struct GPT2Vocabulary {
  std::vector<std::string> tokens;              ///< bytes of each token
  std::array<std::int32_t, 256> byte_tokens{};  ///< the token that is this byte
  MergeTable merges;
  std::optional<std::int32_t> end_of_text;
};

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

}  // namespace detail

namespace {

using detail::EncodeWorkspace;
using detail::GPT2Vocabulary;
using detail::MergeTable;

// --- the two files of the vocabulary, vocab.json and merges.txt, checked so that encoding and decoding
// cannot fail later

constexpr std::string_view kEndOfText = "<|endoftext|>";

constexpr std::size_t kMostTokens = std::size_t{1} << 20U;
/// Bytes that are printable in Latin-1 are written as themselves, all other bytes as the characters from
/// U+0100 on.
constexpr std::uint32_t kFirstShifted = 0x100, kShifted = 68;

constexpr bool is_printed_byte(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD && byte <= 0xFF);
}

/// The byte that each of the characters below U+0100 + 68 stands for, -1 for those that stand for none.
constexpr std::array<std::int16_t, kFirstShifted + kShifted> kByteOfSymbol = [] {
  std::array<std::int16_t, kFirstShifted + kShifted> bytes{};
  for (std::int16_t& byte : bytes) byte = -1;
  std::uint32_t next = kFirstShifted;
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    bytes[is_printed_byte(byte) ? byte : next++] = static_cast<std::int16_t>(byte);
  return bytes;
}();

/// The bytes of a token written in byte symbols; nothing where a character is none.
std::optional<std::string> bytes_of_symbols(std::string_view symbols) {
  std::string bytes;
  for (std::size_t at = 0; at < symbols.size();) {
    const detail::Utf8Character character = detail::utf8_at(symbols, at);
    if (character.code >= kByteOfSymbol.size() || kByteOfSymbol[character.code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOfSymbol[character.code]));
    at += character.length;
  }
  return bytes;
}

using TokenNumbers = std::unordered_map<std::string, std::int32_t>;

std::string vocabulary_op(const std::string& path) { return "GPT2Tokenizer '" + path + "'"; }

/// Fills `tokens`, and returns the number of each.
TokenNumbers read_tokens(const std::string& path, std::vector<std::string>& tokens) {
  const std::string op = vocabulary_op(path);
  const Value json = io::read_json_file(path, {.max_depth = 1, .max_values = kMostTokens + 1});
  if (!json.is_map()) throw IoError(op, "a map of tokens to numbers", "another value", "give vocab.json");
  const std::size_t count = json.size();
  tokens.resize(count);
  std::vector<bool> is_taken(count, false);
  TokenNumbers numbers;
  numbers.reserve(count);
  for (const auto& [symbols, number] : json.as_map()) {
    const std::int64_t id = number.is_int() ? number.as_int() : -1;
    if (id < 0 || id >= static_cast<std::int64_t>(count) || is_taken[static_cast<std::size_t>(id)]) {
      throw IoError(op, "the numbers 0 to " + std::to_string(count - 1) + ", each for one token",
                    number.to_string() + " for " + quote(symbols), "give vocab.json");
    }
    std::optional<std::string> bytes = bytes_of_symbols(symbols);
    if (!bytes || bytes->empty())
      throw IoError(op, "tokens in GPT-2's byte symbols", quote(symbols),
                    "give vocab.json of a GPT-2 tokenizer");
    is_taken[static_cast<std::size_t>(id)] = true;
    numbers.emplace(*bytes, static_cast<std::int32_t>(id));
    tokens[static_cast<std::size_t>(id)] = std::move(*bytes);
  }
  return numbers;
}

/// The token of a text in byte symbols in a line of merges.txt.
std::int32_t merged_token(const std::string& op, const TokenNumbers& numbers, std::string_view symbols,
                          std::size_t line) {
  const std::optional<std::string> bytes = bytes_of_symbols(symbols);
  const auto found = bytes ? numbers.find(*bytes) : numbers.end();
  if (found != numbers.end()) return found->second;
  throw IoError(op, "tokens of the vocabulary in line " + std::to_string(line), quote(symbols),
                "give the merges.txt that belongs to the vocabulary");
}

MergeTable::Merge merge_of_line(const std::string& op, const TokenNumbers& numbers, std::string_view text,
                                std::size_t line) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || space == 0 || text.find(' ', space + 1) != std::string_view::npos ||
      space + 1 == text.size()) {
    throw IoError(op, "two tokens with a space between them in line " + std::to_string(line), quote(text),
                  "give merges.txt");
  }
  const std::string_view left = text.substr(0, space), right = text.substr(space + 1);
  return {.left = merged_token(op, numbers, left, line),
          .right = merged_token(op, numbers, right, line),
          .result = merged_token(op, numbers, std::string(left) + std::string(right), line)};
}

MergeTable read_merges(const std::string& path, const TokenNumbers& numbers) {
  const std::string op = vocabulary_op(path);
  const std::vector<std::byte> bytes = io::read_file(path);
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<MergeTable::Merge> merges;
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    std::string_view text = all.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (text.empty() || (line == 1 && text.starts_with("#version"))) continue;
    merges.push_back(merge_of_line(op, numbers, text, line));
  }
  return MergeTable(std::move(merges));
}

GPT2Vocabulary read_gpt2_vocabulary(const std::string& vocab_json, const std::string& merges_txt) {
  GPT2Vocabulary vocabulary;
  const TokenNumbers numbers = read_tokens(vocab_json, vocabulary.tokens);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found = numbers.find(std::string(1, static_cast<char>(byte)));
    if (found == numbers.end()) {
      throw IoError(vocabulary_op(vocab_json), "a token for each byte",
                    "none for byte " + std::to_string(byte), "give vocab.json of a byte-level tokenizer");
    }
    vocabulary.byte_tokens[byte] = found->second;
  }
  if (const auto found = numbers.find(std::string(kEndOfText)); found != numbers.end())
    vocabulary.end_of_text = found->second;
  vocabulary.merges = read_merges(merges_txt, numbers);
  return vocabulary;
}

constexpr const char* kEncodeOp = "GPT2Tokenizer::encode";
constexpr const char* kDecodeOp = "GPT2Tokenizer::decode";

}  // namespace

struct GPT2Tokenizer::Impl {
  GPT2Vocabulary vocabulary;
  /// Workspaces that no call uses. Each call has one of its own, so that threads do not wait for each other.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<EncodeWorkspace>> idle;

  [[nodiscard]] std::unique_ptr<EncodeWorkspace> take_workspace() const {
    const std::scoped_lock lock(mutex);
    if (idle.empty()) return std::make_unique<EncodeWorkspace>();
    std::unique_ptr<EncodeWorkspace> workspace = std::move(idle.back());
    idle.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<EncodeWorkspace> workspace) const {
    constexpr std::size_t kMostIdle = 64;
    const std::scoped_lock lock(mutex);
    if (idle.size() < kMostIdle) idle.push_back(std::move(workspace));
  }

  void encode_text(std::string_view text, EncodeWorkspace& workspace, std::vector<std::int32_t>& out) const {
    constexpr std::size_t kTooLong = std::size_t{1} << 31U;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = detail::word_end(text, begin);
      const std::string_view word = text.substr(begin, end - begin);
      begin = end;
      if (workspace.cache.find(word, out)) continue;
      if (word.size() >= kTooLong)
        throw ValueError(kEncodeOp, "words below 2^31 bytes", std::to_string(word.size()) + " bytes",
                         "cut the text");
      const std::size_t before = out.size();
      workspace.encoder.encode(word, vocabulary.byte_tokens, vocabulary.merges, out);
      workspace.cache.keep(word, std::span(out).subspan(before));
    }
  }
};

GPT2Tokenizer GPT2Tokenizer::load(const std::string& vocab_json, const std::string& merges_txt) {
  auto impl = std::make_shared<Impl>();
  impl->vocabulary = read_gpt2_vocabulary(vocab_json, merges_txt);
  return GPT2Tokenizer(std::move(impl));
}

std::int64_t GPT2Tokenizer::vocab_size() const noexcept {
  return static_cast<std::int64_t>(impl_->vocabulary.tokens.size());
}

std::optional<std::int32_t> GPT2Tokenizer::end_of_text() const noexcept {
  return impl_->vocabulary.end_of_text;
}

std::vector<std::int32_t> GPT2Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (options.allow_special && !end_of_text())
    throw ValueError(kEncodeOp, "a vocabulary with <|endoftext|>", "one without", "leave out .allow_special");
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size() / 3 + 1);
  std::unique_ptr<EncodeWorkspace> workspace = impl_->take_workspace();
  while (options.allow_special) {
    const std::size_t special = text.find(kEndOfText);
    if (special == std::string_view::npos) break;
    impl_->encode_text(text.substr(0, special), *workspace, tokens);
    tokens.push_back(*end_of_text());
    text.remove_prefix(special + kEndOfText.size());
  }
  impl_->encode_text(text, *workspace, tokens);
  impl_->give_back(std::move(workspace));
  return tokens;
}

std::string GPT2Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    detail::check_token(kDecodeOp, tokens[i], i, vocab_size());
    text += impl_->vocabulary.tokens[static_cast<std::size_t>(tokens[i])];
  }
  return text;
}

std::string GPT2Tokenizer::decode(const Tensor& tokens) const {
  const std::vector<std::int64_t> ids = detail::token_ids(kDecodeOp, tokens);
  std::vector<std::int32_t> narrow;
  narrow.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    detail::check_token(kDecodeOp, ids[i], i, vocab_size());
    narrow.push_back(static_cast<std::int32_t>(ids[i]));
  }
  return decode(narrow);
}

}  // namespace mezzo::data
