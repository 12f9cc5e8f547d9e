// Rows are copied and not shown as views: a transform that writes in place must not change the data set.
#include "mezzo/data/detail/rows.h"

#include <cstring>
#include <string>

#include "mezzo/core/error.h"

namespace mezzo::data::detail {

namespace {

std::size_t bytes_of_row(const Tensor& rows) {
  std::size_t bytes = static_cast<std::size_t>(info(rows.dtype()).size);
  for (std::int64_t d = 1; d < rows.dim(); ++d) bytes *= static_cast<std::size_t>(rows.size(d));
  return bytes;
}

void copy_row(const Tensor& rows, std::int64_t index, std::size_t bytes, std::byte* to) {
  if (bytes == 0) return;
  const auto* const first = static_cast<const std::byte*>(rows.impl().data());
  std::memcpy(to, first + static_cast<std::size_t>(index) * bytes, bytes);
}

}  // namespace

void check_index(std::string_view op, std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw IndexError(op, "an index from 0 to " + std::to_string(size - 1), std::to_string(index),
                   "size() is the number of samples");
}

Tensor take_rows(std::string_view op, const Tensor& rows, std::span<const std::int64_t> indices) {
  for (const std::int64_t index : indices) check_index(op, index, rows.size(0));
  Shape shape = rows.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  Tensor result = empty(shape, {.dtype = rows.dtype()});
  const std::size_t bytes = bytes_of_row(rows);
  auto* to = static_cast<std::byte*>(result.impl().data());
  for (const std::int64_t index : indices) {
    copy_row(rows, index, bytes, to);
    to += bytes;
  }
  return result;
}

Tensor take_row(std::string_view op, const Tensor& rows, std::int64_t index) {
  check_index(op, index, rows.size(0));
  Shape shape = rows.shape();
  shape.erase(0);
  Tensor result = empty(shape, {.dtype = rows.dtype()});
  copy_row(rows, index, bytes_of_row(rows), static_cast<std::byte*>(result.impl().data()));
  return result;
}

Tensor label_tensor(std::int64_t label) {
  Tensor result = empty(Shape{}, {.dtype = DType::i64});
  *static_cast<std::int64_t*>(result.impl().data()) = label;
  return result;
}

}  // namespace mezzo::data::detail
