// The two files of GPT-2's vocabulary. Not for use outside of data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/data/text/detail/byte_pairs.h"

namespace mezzo::data::detail {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

struct GPT2Vocabulary {
  std::vector<std::string> tokens;              ///< bytes of each token
  std::array<std::int32_t, 256> byte_tokens{};  ///< the token that is this byte
  MergeTable merges;
  std::optional<std::int32_t> end_of_text;
};

/// Throws: IoError, see GPT2Tokenizer::load.
[[nodiscard]] GPT2Vocabulary read_gpt2_vocabulary(const std::string& vocab_json,
                                                  const std::string& merges_txt);

}  // namespace mezzo::data::detail
