// A sorted list of code points, searched.
#include "mezzo/data/text/char_tokenizer.h"

#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/data/text/detail/token_ids.h"
#include "mezzo/data/text/detail/unicode.h"
#include "mezzo/ops/factory.h"

namespace mezzo::data {

namespace {

/// The character at `at`. Throws: ValueError in the name of `op`.
detail::Utf8Character valid_character(const char* op, std::string_view text, std::size_t at) {
  const detail::Utf8Character character = detail::utf8_at(text, at);
  if (character.code != detail::kNoCharacter) return character;
  throw ValueError(op, "text in UTF-8", "other bytes at byte " + std::to_string(at),
                   "convert it, or use ByteTokenizer");
}

}  // namespace

CharTokenizer::CharTokenizer(std::string_view text) {
  // Marks instead of a list of all characters: a text has many more characters than different characters.
  std::vector<bool> is_there(0x110000, false);
  for (std::size_t at = 0; at < text.size();) {
    const detail::Utf8Character character = valid_character("CharTokenizer", text, at);
    is_there[character.code] = true;
    at += character.length;
  }
  for (std::uint32_t code = 0; code < is_there.size(); ++code) {
    if (is_there[code]) characters_.push_back(code);
  }
}

std::string CharTokenizer::vocabulary() const {
  std::string text;
  for (const std::uint32_t character : characters_) detail::append_utf8(text, character);
  return text;
}

std::int64_t CharTokenizer::find(std::uint32_t character) const noexcept {
  const auto place = std::lower_bound(characters_.begin(), characters_.end(), character);
  return place == characters_.end() || *place != character ? -1 : place - characters_.begin();
}

Tensor CharTokenizer::encode(std::string_view text) const {
  constexpr const char* kOp = "CharTokenizer::encode";
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const detail::Utf8Character character = valid_character(kOp, text, at);
    tokens.push_back(find(character.code));
    if (tokens.back() < 0) {
      throw ValueError(kOp, "characters of the vocabulary",
                       quote(text.substr(at, character.length)) + " at byte " + std::to_string(at),
                       "make the tokenizer of all text it is to encode");
    }
    at += character.length;
  }
  return tensor(tokens);
}

std::string CharTokenizer::decode(const Tensor& tokens) const {
  return decode(detail::token_ids("CharTokenizer::decode", tokens));
}

std::string CharTokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    detail::check_token("CharTokenizer::decode", tokens[i], i, vocab_size());
    detail::append_utf8(text, characters_[static_cast<std::size_t>(tokens[i])]);
  }
  return text;
}

Tensor ByteTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tensor(tokens);
}

std::string ByteTokenizer::decode(const Tensor& tokens) const {
  return decode(detail::token_ids("ByteTokenizer::decode", tokens));
}

std::string ByteTokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    detail::check_token("ByteTokenizer::decode", tokens[i], i, vocab_size());
    text.push_back(static_cast<char>(tokens[i]));
  }
  return text;
}

}  // namespace mezzo::data
