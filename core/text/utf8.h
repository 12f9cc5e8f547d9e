// Characters of UTF-8 text (RFC 3629, table 3-7 of the Unicode standard). Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mezzo::detail {

/// A character and how many bytes it is written in. A byte that belongs to no character is kNoCharacter.
struct Utf8Character {
  std::uint32_t code;
  std::uint32_t length;
};
inline constexpr std::uint32_t kNoCharacter = 0xFFFFFFFF;

/// The character at `at`, which is below the text's size. No overlong forms, no surrogates, nothing above
/// U+10FFFF.
[[nodiscard]] inline Utf8Character utf8_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::uint32_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() - at < length) return {kNoCharacter, 1};
  std::uint32_t code = first & (0x7FU >> length);
  for (std::uint32_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {kNoCharacter, 1};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || (code >= 0xD800 && code <= 0xDFFF) || code > 0x10FFFF) return {kNoCharacter, 1};
  return {code, length};
}

/// Appends the character `code`, which is below 0x110000.
inline void append_utf8(std::string& text, std::uint32_t code) {
  const std::uint32_t rest = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  text.push_back(static_cast<char>(kLead[rest] | code >> (6 * rest)));
  for (std::uint32_t i = rest; i-- > 0;)
    text.push_back(static_cast<char>(0x80U | ((code >> (6 * i)) & 0x3FU)));
}

}  // namespace mezzo::detail
