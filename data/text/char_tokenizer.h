// Characters and bytes as tokens: for small models of text, as nanoGPT's Shakespeare.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data {

/// The characters (Unicode code points) of a text, sorted, as the tokens 0, 1, ... `CharTokenizer(text)` and
/// `CharTokenizer(that.vocabulary())` are the same. Members may be called from several threads.
class CharTokenizer {
 public:
  /// Throws: ValueError, naming the byte, where `text` is not UTF-8.
  explicit CharTokenizer(std::string_view text);

  [[nodiscard]] std::int64_t vocab_size() const noexcept {
    return static_cast<std::int64_t>(characters_.size());
  }
  /// All characters, in their order.
  [[nodiscard]] std::string vocabulary() const;

  /// Shapes: [characters of text]. Dtypes: i64. Throws: ValueError, naming the byte, for a character that the
  /// vocabulary does not have and for bytes that are not UTF-8.
  [[nodiscard]] Tensor encode(std::string_view text) const;
  /// Shapes: [n]. Dtypes: integers. Throws: ShapeError, DTypeError; IndexError for a number that is no token.
  [[nodiscard]] std::string decode(const Tensor& tokens) const;
  [[nodiscard]] std::string decode(std::span<const std::int64_t> tokens) const;

 private:
  [[nodiscard]] std::int64_t find(std::uint32_t character) const noexcept;

  std::vector<std::uint32_t> characters_;
};

/// Each byte as a token, 0 to 255. No text is refused.
class ByteTokenizer {
 public:
  [[nodiscard]] static constexpr std::int64_t vocab_size() noexcept { return 256; }
  /// Shapes: [bytes of text]. Dtypes: i64.
  [[nodiscard]] Tensor encode(std::string_view text) const;
  /// Shapes: [n]. Dtypes: integers. Throws: ShapeError, DTypeError; IndexError for a number that is no byte.
  [[nodiscard]] std::string decode(const Tensor& tokens) const;
  [[nodiscard]] std::string decode(std::span<const std::int64_t> tokens) const;
};

}  // namespace mezzo::data
