// Token numbers out of tensors, for the tokenizers' decode. Not for use outside of data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/tensor.h"

namespace mezzo::data::detail {

/// The elements of a 1-dim tensor of integers. Throws: ShapeError, DTypeError in the name of `op`.
[[nodiscard]] inline std::vector<std::int64_t> token_ids(std::string_view op, const Tensor& tokens) {
  if (tokens.dim() != 1) {
    throw ShapeError(op, "tokens [n]", to_string(tokens.shape()),
                     tokens.dim() == 0 ? "use view({1})" : "decode the rows one by one");
  }
  if (info(tokens.dtype()).kind != DTypeKind::integer)
    throw DTypeError(op, "tokens of an integer dtype", std::string(info(tokens.dtype()).name), "");
  return tokens.to_vector<std::int64_t>();
}

/// Throws: IndexError unless 0 <= id < size.
inline void check_token(std::string_view op, std::int64_t id, std::size_t position, std::int64_t size) {
  if (id >= 0 && id < size) return;
  throw IndexError(op, "tokens from 0 to " + std::to_string(size - 1),
                   std::to_string(id) + " at position " + std::to_string(position),
                   "decode with the tokenizer that encoded");
}

}  // namespace mezzo::data::detail
