// Shared by data sets that keep their samples as rows of tensors: checked indices, and rows copied out. Not
// for use outside of data.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "mezzo/core/tensor.h"

namespace mezzo::data::detail {

/// Throws: IndexError in the name of `op` unless 0 <= index < size.
void check_index(std::string_view op, std::int64_t index, std::int64_t size);

/// The rows at `indices` of a contiguous CPU tensor, copied: [indices, rest of the shape]. Throws:
/// IndexError.
[[nodiscard]] Tensor take_rows(std::string_view op, const Tensor& rows,
                               std::span<const std::int64_t> indices);

/// One row, copied: the rest of the shape. Throws: IndexError.
[[nodiscard]] Tensor take_row(std::string_view op, const Tensor& rows, std::int64_t index);

/// A tensor of no dims, i64: a label.
[[nodiscard]] Tensor label_tensor(std::int64_t label);

}  // namespace mezzo::data::detail
