// Columns to tensors and codes.
#include "mezzo/data/table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"

namespace mezzo::data {

namespace {

[[noreturn]] void refuse_cell(const Column& column, std::size_t row, const std::string& wanted,
                              const std::string& got, std::string_view fix) {
  throw ValueError("Table::tensor",
                   wanted + " in row " + std::to_string(row) + " of column " + quote(column.name), got, fix);
}

/// A value of a column of numbers as an integer of `dtype`.
std::int64_t table_integer(const Column& column, std::size_t row, DType dtype) {
  const std::string name(info(dtype).name);
  std::int64_t value = 0;
  if (column.type == ColumnType::f64) {
    const double real = column.reals[row];
    if (std::isnan(real))
      refuse_cell(column, row, "a value for " + name, "a missing one",
                  "read it with a .fill_value, or take f32");
    if (std::trunc(real) != real || std::fabs(real) >= 0x1p63)
      refuse_cell(column, row, "an integer for " + name, number_text(real), "take f32 or f64");
    value = static_cast<std::int64_t>(real);
  } else {
    value = column.integers[row];
  }
  // The range: u8 and bool from 0 on, other dtypes half below 0.
  const auto bits = static_cast<unsigned>(size_of(dtype)) * 8;
  const bool is_unsigned = dtype == DType::u8;
  std::int64_t low = is_unsigned ? 0 : -1 - static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1);
  std::int64_t high = is_unsigned ? 255 : static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1);
  if (dtype == DType::boolean) low = 0, high = 1;
  if (value < low || value > high)
    refuse_cell(column, row, "an integer from " + std::to_string(low) + " to " + std::to_string(high),
                std::to_string(value), "take a larger dtype than " + name);
  return value;
}

double table_real(const Column& column, std::size_t row) {
  return column.type == ColumnType::f64 ? column.reals[row] : static_cast<double>(column.integers[row]);
}

std::size_t rows_of(const Column& column) { return static_cast<std::size_t>(column.size()); }

/// The columns side by side, f64 or i64.
template <class T, class Value>
Tensor side_by_side(const std::vector<const Column*>& columns, std::int64_t rows, Value value_of) {
  const auto width = static_cast<std::int64_t>(columns.size());
  Tensor result = empty({rows, width}, {.dtype = dtype_of<T>});
  T* const to = static_cast<T*>(result.impl().data());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    for (std::size_t row = 0; row < rows_of(*columns[c]); ++row)
      to[row * columns.size() + c] = value_of(*columns[c], row);
  }
  return result;
}

/// `name_of(value)` of each distinct value, in order, and which of them each value is; none of a missing one.
template <class T, class IsMissing, class Name>
Categories categories_of(const std::vector<T>& values, IsMissing is_missing, Name name_of) {
  std::vector<T> distinct;
  std::remove_copy_if(values.begin(), values.end(), std::back_inserter(distinct), is_missing);
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  Categories result{.codes = empty({static_cast<std::int64_t>(values.size())}, {.dtype = DType::i64}),
                    .names = {}};
  for (const T value : distinct) result.names.push_back(name_of(value));
  auto* to = static_cast<std::int64_t*>(result.codes.impl().data());
  for (const T value : values) {
    const auto place = std::lower_bound(distinct.begin(), distinct.end(), value);
    *to++ = is_missing(value) ? -1 : place - distinct.begin();
  }
  return result;
}

}  // namespace

std::string_view to_string(ColumnType type) noexcept {
  return type == ColumnType::i64 ? "i64" : type == ColumnType::f64 ? "f64" : "text";
}

std::int64_t Column::size() const noexcept {
  const std::size_t count = type == ColumnType::i64   ? integers.size()
                            : type == ColumnType::f64 ? reals.size()
                                                      : ends.size();
  return static_cast<std::int64_t>(count);
}

std::string_view Column::text(std::size_t row) const& noexcept {
  const std::size_t begin = row == 0 ? 0 : static_cast<std::size_t>(ends[row - 1]);
  return std::string_view(bytes).substr(begin, static_cast<std::size_t>(ends[row]) - begin);
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  if (!columns_.empty()) rows_ = columns_.front().size();
  std::vector<std::string_view> sorted;
  for (const Column& column : columns_) {
    sorted.push_back(column.name);
    if (column.size() != rows_) {
      throw ValueError("Table", "columns of " + std::to_string(rows_) + " rows",
                       std::to_string(column.size()) + " in " + quote(column.name), "");
    }
  }
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    throw ValueError("Table", "columns of distinct names", quote(*twice) + " twice", "name one differently");
}

std::vector<std::string> Table::names() const {
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name);
  return names;
}

bool Table::contains(std::string_view name) const noexcept {
  return std::any_of(columns_.begin(), columns_.end(), [&](const Column& c) { return c.name == name; });
}

const Column& Table::column(std::string_view name) const& {
  for (const Column& column : columns_) {
    if (column.name == name) return column;
  }
  std::string known;
  for (std::size_t i = 0; i < columns_.size() && i < 8; ++i)
    known += (i == 0 ? "" : ", ") + quote(columns_[i].name, 40);
  if (columns_.size() > 8) known += ", ...";
  throw ValueError("Table::column", "the name of a column: " + known, quote(name), "check the spelling");
}

Tensor Table::tensor(const std::vector<std::string>& names, const TensorOptions& options) const {
  std::vector<const Column*> columns;
  if (names.empty()) {
    for (const Column& known : columns_) columns.push_back(&known);
  }
  for (const std::string& name : names) columns.push_back(&column(name));
  for (const Column* const column : columns) {
    if (column->type == ColumnType::text) {
      throw DTypeError("Table::tensor", "columns of numbers", quote(column->name) + ", which is text",
                       "use categories(name), or leave it out");
    }
  }
  const Tensor host = is_floating(options.dtype)
                          ? side_by_side<double>(columns, rows_, table_real)
                          : side_by_side<std::int64_t>(columns, rows_, [&](const Column& c, std::size_t row) {
                              return table_integer(c, row, options.dtype);
                            });
  Tensor result = host.to(options.dtype).to(options.device);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

std::vector<std::string> Table::text(std::string_view name) const {
  const Column& found = column(name);
  if (found.type != ColumnType::text) {
    throw DTypeError("Table::text", "a column of text",
                     quote(name) + ", which is " + std::string(to_string(found.type)),
                     "read it with .dtypes = {{\"" + found.name + "\", ColumnType::text}}");
  }
  std::vector<std::string> texts;
  texts.reserve(rows_of(found));
  for (std::size_t row = 0; row < rows_of(found); ++row) texts.emplace_back(found.text(row));
  return texts;
}

Categories Table::categories(std::string_view name) const {
  const Column& found = column(name);
  if (found.type == ColumnType::i64)
    return categories_of(
        found.integers, [](std::int64_t /*value*/) { return false; },
        [](std::int64_t value) { return std::to_string(value); });
  if (found.type == ColumnType::f64)
    return categories_of(
        found.reals, [](double value) { return std::isnan(value); },
        [](double value) { return number_text(value); });
  std::vector<std::string_view> texts;
  for (std::size_t row = 0; row < rows_of(found); ++row) texts.push_back(found.text(row));
  return categories_of(
      texts, [](std::string_view text) { return text.empty(); },
      [](std::string_view text) { return std::string(text); });
}

}  // namespace mezzo::data
