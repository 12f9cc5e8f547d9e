// Byte-pair encoding: any bytes come back, and a word's tokens are those of a plain loop over all pairs.
// Inputs whose first byte is odd are files of merges.
#include <cstdio>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/text/detail/unicode.h"
#include "mezzo/data/text/gpt2_tokenizer.h"
#include "mezzo/tests/fuzz/memory_file.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

using data::GPT2Tokenizer;
using BpeTokens = std::vector<std::int32_t>;
using BpePair = std::pair<std::string, std::string>;

/// Merges of bytes as they are; "\xC4\xA0" is how the files write a space, "\xC3\x83\xC2\xBC" an "ü".
constexpr const char* kBpeMerges =
    "#version: 0.2\nab a\nt h\na b\nth e\n\xC4\xA0 the\na a\naa aa\nh e\n\xC3\x83 \xC2\xBC\n' s\n1 2\n";
const std::vector<BpePair>& bpe_merges() {
  static const std::vector<BpePair> merges{{"ab", "a"},      {"t", "h"}, {"a", "b"},   {"th", "e"},
                                           {" ", "the"},     {"a", "a"}, {"aa", "aa"}, {"h", "e"},
                                           {"\xC3", "\xBC"}, {"'", "s"}, {"1", "2"}};
  return merges;
}

/// The bytes, as JSON strings by the rule of encoder.py, and the tokens that the merges lead to.
std::string bpe_vocabulary() {
  std::string json = "{";
  int shifted = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printed = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(printed ? byte : 256 + shifted++));
    json += (byte == 0 ? "\"" : ",\"") + std::string(code) + "\":" + std::to_string(byte);
  }
  int number = 256;
  for (const char* token :
       {"aba", "th", "ab", "the", "\xC4\xA0the", "aa", "aaaa", "he", "\xC3\x83\xC2\xBC", "'s", "12"})
    json += ",\"" + std::string(token) + "\":" + std::to_string(number++);
  return json + "}";
}

GPT2Tokenizer load_bpe(std::string_view merges) {
  const std::string vocabulary = bpe_vocabulary();
  const MemoryFile vocab(reinterpret_cast<const std::uint8_t*>(vocabulary.data()), vocabulary.size());
  const MemoryFile file(reinterpret_cast<const std::uint8_t*>(merges.data()), merges.size());
  return GPT2Tokenizer::load(vocab.path(), file.path());
}

/// The pieces of a word, by OpenAI's encoder.py.
std::vector<std::string> plain_pieces(std::string_view word) {
  std::vector<std::string> pieces;
  for (const char c : word) pieces.emplace_back(1, c);
  for (;;) {
    std::size_t best = bpe_merges().size();
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
      for (std::size_t rank = 0; rank < best; ++rank) {
        if (bpe_merges()[rank] == BpePair(pieces[i], pieces[i + 1])) best = rank;
      }
    }
    if (best == bpe_merges().size()) return pieces;
    std::vector<std::string> merged;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (i + 1 < pieces.size() && bpe_merges()[best] == BpePair(pieces[i], pieces[i + 1])) {
        merged.push_back(pieces[i] + pieces[i + 1]);
        ++i;
      } else {
        merged.push_back(pieces[i]);
      }
    }
    pieces = merged;
  }
}

void check_text(const GPT2Tokenizer& tokenizer, std::string_view text) {
  const BpeTokens tokens = tokenizer.encode(text);
  require(tokenizer.decode(tokens) == text, "decode(encode(bytes)) is the bytes");
  require(tokenizer.encode(text) == tokens, "an encoding is the same from the cache");
  std::size_t next = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = data::detail::word_end(text, begin);
    require(end > begin && end <= text.size(), "a word has a byte at least and ends in the text");
    for (const std::string& piece : plain_pieces(text.substr(begin, end - begin))) {
      require(next < tokens.size() && tokenizer.decode(BpeTokens{tokens[next]}) == piece,
              "tokens are encoder.py's");
      ++next;
    }
    begin = end;
  }
  require(next == tokens.size(), "there are as many tokens");
}

}  // namespace

int fuzz_bpe(const std::uint8_t* data, std::size_t size) {
  static const GPT2Tokenizer tokenizer = load_bpe(kBpeMerges);
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1U) == 0) {
    check_text(tokenizer, text);
    return 0;
  }
  try {
    const GPT2Tokenizer odd = load_bpe(text);
    constexpr std::string_view kText = "ababa the aaaaa the\xC3\xBC's 1212\xFF";
    require(odd.decode(odd.encode(kText)) == kText, "decode(encode(bytes)) is the bytes with any merges");
  } catch (const IoError&) {
  }
  return 0;
}

}  // namespace mezzo::fuzz
