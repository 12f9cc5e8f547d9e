// What the characters of a text are, and GPT-2's pre-tokenizer: the words that byte-pair encoding does not
// look beyond. Not for use outside of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "mezzo/core/text/utf8.h"

namespace mezzo::data::detail {

using mezzo::detail::append_utf8;
using mezzo::detail::kNoCharacter;
using mezzo::detail::utf8_at;
using mezzo::detail::Utf8Character;

/// The classes that GPT-2's pattern tells apart: \p{L}, \p{N}, \s, and all else.
enum class CharClass : std::uint8_t { other, letter, number, space };
/// The class of a character; `other` for kNoCharacter. Letters and numbers as in the Unicode version that
/// unicode_table.cpp names; characters assigned since are `other`.
[[nodiscard]] CharClass class_of(std::uint32_t code) noexcept;

/// Where runs of characters of one class begin: 4 * code + class, rising. Before the first is `other`.
[[nodiscard]] std::span<const std::uint32_t> unicode_starts() noexcept;

/// Where the word ends that begins at `begin`, which is below the text's size: what
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ matches there. Bytes that are
/// not UTF-8 are characters that are neither letters nor numbers nor space.
[[nodiscard]] std::size_t word_end(std::string_view text, std::size_t begin) noexcept;

}  // namespace mezzo::data::detail
