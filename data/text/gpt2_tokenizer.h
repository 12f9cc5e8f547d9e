// GPT-2's tokenizer: text to numbers by byte-level byte-pair encoding, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data {

struct EncodeOptions {
  /// "<|endoftext|>" in the text is the one token that separates documents; else it is text like any other.
  bool allow_special = false;
};

/// Tokens of byte-level byte-pair encoding with GPT-2's pattern of words. Any bytes can be encoded, and
/// decode(encode(bytes)) == bytes: a byte that belongs to no UTF-8 character counts as a character of its own
/// that is neither letter nor number nor space. Which characters are letters is Unicode 14's affair;
/// characters that are newer count as neither. Members may be called from several threads. Copies share
/// everything. Source: OpenAI's encoder.py, transformers.GPT2Tokenizer.
class GPT2Tokenizer {
 public:
  /// `vocab_json` maps tokens in GPT-2's byte symbols to the numbers 0, 1, ... (vocab.json, encoder.json);
  /// `merges_txt` has a pair of tokens per line, the first merged first (merges.txt, vocab.bpe). Throws:
  /// IoError, naming the file, when it cannot be read, when numbers do not go from 0 up without gaps, a byte
  /// has no token, or a merge is not of two tokens or does not lead to one. At most 2^20 tokens.
  [[nodiscard]] static GPT2Tokenizer load(const std::string& vocab_json, const std::string& merges_txt);

  [[nodiscard]] std::int64_t vocab_size() const noexcept;
  /// The token "<|endoftext|>", where the vocabulary has one.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const noexcept;

  /// Throws: ValueError for a word of 2^31 bytes or more, and for `allow_special` where there is no such
  /// token.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 const EncodeOptions& options = {}) const;
  /// Throws: IndexError, naming the position, for a number that is no token.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;
  /// Shapes: [n]. Dtypes: integers. Throws: ShapeError, DTypeError, IndexError.
  [[nodiscard]] std::string decode(const Tensor& tokens) const;

 private:
  struct Impl;
  explicit GPT2Tokenizer(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

}  // namespace mezzo::data
