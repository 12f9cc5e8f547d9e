// Token numbers out of tensors, for the tokenizers' decode. Not for use outside of data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data::detail {

/// The elements of a 1-dim tensor of integers. Throws: ShapeError, DTypeError in the name of `op`.
[[nodiscard]] std::vector<std::int64_t> token_ids(std::string_view op, const Tensor& tokens);

/// Throws: IndexError unless 0 <= id < size.
void check_token(std::string_view op, std::int64_t id, std::size_t position, std::int64_t size);

}  // namespace mezzo::data::detail
