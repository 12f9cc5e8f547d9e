// A binary search in the table of classes.
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

CharClass class_of(std::uint32_t code) noexcept {
  if (code == kNoCharacter) return CharClass::other;
  if (is_unicode_space(code)) return CharClass::space;
  const std::span<const std::uint32_t> starts = unicode_starts();
  const auto next = std::upper_bound(starts.begin(), starts.end(), code * 4 + 3);
  return next == starts.begin() ? CharClass::other : static_cast<CharClass>(*(next - 1) & 3U);
}

}  // namespace mezzo::data::detail
