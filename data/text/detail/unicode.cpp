// UTF-8 (RFC 3629, table 3-7 of the Unicode standard), and a binary search in the table of classes.
#include "mezzo/data/text/detail/unicode.h"

#include <algorithm>

namespace mezzo::data::detail {

namespace {

/// Unicode's property White_Space, which is what \s means. (unicodedata does not say it.)
bool is_unicode_space(std::uint32_t code) noexcept {
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

}  // namespace

Utf8Character utf8_at(std::string_view text, std::size_t at) noexcept {
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

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto put_rest = [&](std::uint32_t shift) { put(0x80U | ((code >> shift) & 0x3FU)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | code >> 6U);
    put_rest(0);
  } else if (code < 0x10000) {
    put(0xE0U | code >> 12U);
    put_rest(6);
    put_rest(0);
  } else {
    put(0xF0U | code >> 18U);
    put_rest(12);
    put_rest(6);
    put_rest(0);
  }
}

CharClass class_of(std::uint32_t code) noexcept {
  if (code == kNoCharacter) return CharClass::other;
  if (is_unicode_space(code)) return CharClass::space;
  const std::span<const std::uint32_t> starts = unicode_starts();
  const auto next = std::upper_bound(starts.begin(), starts.end(), code * 4 + 3);
  return next == starts.begin() ? CharClass::other : static_cast<CharClass>(*(next - 1) & 3U);
}

}  // namespace mezzo::data::detail
