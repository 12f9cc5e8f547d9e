// GPT-2's pre-tokenizer: the words that byte-pair encoding does not look beyond. Not for use outside of data.
#pragma once

#include <cstddef>
#include <string_view>

namespace mezzo::data::detail {

/// Where the word ends that begins at `begin`, which is below the text's size: what
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ matches there. Bytes that are
/// not UTF-8 are characters that are neither letters nor numbers nor space.
[[nodiscard]] std::size_t word_end(std::string_view text, std::size_t begin) noexcept;

}  // namespace mezzo::data::detail
