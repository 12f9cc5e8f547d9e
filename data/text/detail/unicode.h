// Characters of UTF-8 text and what they are. Not for use outside of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::data::detail {

/// A character and how many bytes it is written in. A byte that belongs to no character is kNoCharacter.
struct Utf8Character {
  std::uint32_t code;
  std::uint32_t length;
};
inline constexpr std::uint32_t kNoCharacter = 0xFFFFFFFF;

/// The character at `at`, which is below the text's size. No overlong forms, no surrogates, nothing above
/// U+10FFFF.
[[nodiscard]] Utf8Character utf8_at(std::string_view text, std::size_t at) noexcept;
/// Appends the character `code`.
void append_utf8(std::string& text, std::uint32_t code);

/// The classes that GPT-2's pattern tells apart: \p{L}, \p{N}, \s, and all else.
enum class CharClass : std::uint8_t { other, letter, number, space };
/// The class of a character; `other` for kNoCharacter. Letters and numbers as in the Unicode version that
/// unicode_table.cpp names; characters assigned since are `other`.
[[nodiscard]] CharClass class_of(std::uint32_t code) noexcept;

/// Where runs of characters of one class begin: 4 * code + class, rising. Before the first is `other`.
[[nodiscard]] std::span<const std::uint32_t> unicode_starts() noexcept;

}  // namespace mezzo::data::detail
