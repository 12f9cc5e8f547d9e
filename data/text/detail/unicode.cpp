// A binary search in the table of classes. The pattern by hand: its alternatives, in their order. Nearly all
// text is ASCII letters, which a table knows.
#include "mezzo/data/text/detail/unicode.h"

#include <algorithm>
#include <array>

namespace mezzo::data::detail {

namespace {

/// Unicode's property White_Space, which is what \s means. (unicodedata does not say it.)
bool is_unicode_space(std::uint32_t code) noexcept {
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

constexpr std::array<CharClass, 128> kAsciiClasses = [] {
  std::array<CharClass, 128> classes{};
  for (std::size_t c = 0; c < 128; ++c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_space = c == ' ' || (c >= 9 && c <= 13);
    classes[c] = is_letter                ? CharClass::letter
                 : (c >= '0' && c <= '9') ? CharClass::number
                 : is_space               ? CharClass::space
                                          : CharClass::other;
  }
  return classes;
}();

struct ClassedCharacter {
  CharClass kind;
  std::size_t length;
};

ClassedCharacter classed_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 128) return {kAsciiClasses[byte], 1};
  const Utf8Character character = utf8_at(text, at);
  return {class_of(character.code), character.length};
}

/// The length of 's, 't, 're, 've, 'm, 'll or 'd at `at`; 0 where there is none.
std::size_t contraction_at(std::string_view text, std::size_t at) noexcept {
  if (text[at] != '\'' || at + 1 == text.size()) return 0;
  const char first = text[at + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const char second = at + 2 < text.size() ? text[at + 2] : '\0';
  const bool is_long = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return is_long ? 3 : 0;
}

}  // namespace

CharClass class_of(std::uint32_t code) noexcept {
  if (code == kNoCharacter) return CharClass::other;
  if (is_unicode_space(code)) return CharClass::space;
  const std::span<const std::uint32_t> starts = unicode_starts();
  const auto next = std::upper_bound(starts.begin(), starts.end(), code * 4 + 3);
  return next == starts.begin() ? CharClass::other : static_cast<CharClass>(*(next - 1) & 3U);
}

std::size_t word_end(std::string_view text, std::size_t begin) noexcept {
  const std::size_t contraction = contraction_at(text, begin);
  if (contraction > 0) return begin + contraction;
  ClassedCharacter character = classed_at(text, begin);
  std::size_t end = begin + character.length;
  if (text[begin] == ' ' && end < text.size()) {
    const ClassedCharacter next = classed_at(text, end);
    if (next.kind != CharClass::space) {
      character = next;
      end += next.length;
    }
  }
  std::size_t last = end - character.length;  // where the last character of the run begins
  while (end < text.size()) {
    const ClassedCharacter next = classed_at(text, end);
    if (next.kind != character.kind) break;
    last = end;
    end += next.length;
  }
  // Of several spaces the last one is left to the word behind them.
  const bool leaves_one = character.kind == CharClass::space && end < text.size() && last > begin;
  return leaves_one ? last : end;
}

}  // namespace mezzo::data::detail
