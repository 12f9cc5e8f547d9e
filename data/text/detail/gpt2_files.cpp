// vocab.json and merges.txt, checked so that encoding and decoding cannot fail later.
#include "mezzo/data/text/detail/gpt2_files.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/data/text/detail/unicode.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/json.h"

namespace mezzo::data::detail {

namespace {

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
    const Utf8Character character = utf8_at(symbols, at);
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

}  // namespace

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

}  // namespace mezzo::data::detail
