// Classes of characters against numbers that Python's unicodedata 14.0 gave, and UTF-8 there and back.
#include "mezzo/data/text/detail/unicode.h"

#include <gtest/gtest.h>

namespace mezzo::data::detail {
namespace {

TEST(Unicode, ClassesAreThoseOfUnicodedata) {
  // FNV-1a over the classes of all code points, \s counted as other: unicodedata does not say it.
  std::uint64_t hash = 0xCBF29CE484222325;
  int letters = 0, numbers = 0, spaces = 0;
  for (std::uint32_t code = 0; code < 0x110000; ++code) {
    const CharClass kind = class_of(code);
    letters += kind == CharClass::letter ? 1 : 0;
    numbers += kind == CharClass::number ? 1 : 0;
    spaces += kind == CharClass::space ? 1 : 0;
    hash = (hash ^ (kind == CharClass::space ? 0U : static_cast<std::uint64_t>(kind))) * 0x100000001B3;
  }
  EXPECT_EQ(letters, 131756);
  EXPECT_EQ(numbers, 1791);
  EXPECT_EQ(spaces, 25);  // White_Space has 25 characters
  EXPECT_EQ(hash, 0xc22d9f0ee36ddcfbU);
}

TEST(Unicode, EveryCharacterReadsAsItWasWritten) {
  for (std::uint32_t code = 0; code < 0x110000; ++code) {
    std::string text;
    append_utf8(text, code);
    const Utf8Character character = utf8_at(text, 0);
    const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
    ASSERT_EQ(character.code, is_surrogate ? kNoCharacter : code);
    ASSERT_EQ(character.length, is_surrogate ? 1 : text.size());
  }
}

TEST(Unicode, TheShortcutForAsciiSaysTheSame) {
  // A word of two equal characters ends after them, unless they are two spaces before something else.
  for (std::uint32_t code = 0; code < 128; ++code) {
    const std::string pair(2, static_cast<char>(code));
    for (std::uint32_t next = 0; next < 128; ++next) {
      const CharClass kind = class_of(code);
      if (code == '\'' || code == ' ' || kind == class_of(next)) continue;
      const std::string text = pair + static_cast<char>(next);
      ASSERT_EQ(word_end(text, 0), kind == CharClass::space ? 1U : 2U) << code << " " << next;
    }
  }
}

}  // namespace
}  // namespace mezzo::data::detail
