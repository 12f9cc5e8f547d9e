// Columns with names, numbers or text: a CSV file in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data {

enum class ColumnType : std::uint8_t { i64, f64, text };

/// "i64", "f64" or "text".
[[nodiscard]] std::string_view to_string(ColumnType type) noexcept;

/// A column of a Table. One of the members holds its values, as `type` says.
struct Column {
  std::string name = {};
  ColumnType type = ColumnType::f64;
  std::vector<std::int64_t> integers = {};
  std::vector<double> reals = {};  ///< NaN where a value is missing
  /// All texts behind each other, and where each of them ends. Empty where a value is missing.
  std::string bytes = {};
  std::vector<std::uint64_t> ends = {};

  [[nodiscard]] std::int64_t size() const noexcept;
  /// The text in `row`, of a column of text, unchecked.
  [[nodiscard]] std::string_view text(std::size_t row) const& noexcept;
  [[nodiscard]] std::string text(std::size_t row) && { return std::string(text(row)); }
};

/// Codes of a column's distinct values: what an embedding or a classification takes.
struct Categories {
  Tensor codes;                    ///< i64 [rows]: positions in `names`, -1 where the value is missing
  std::vector<std::string> names;  ///< distinct values, in order: of text by bytes, of numbers by value
};

/// Columns of the same length with distinct names.
class Table {
 public:
  Table() = default;
  /// Throws: ValueError when two columns have one name or differ in length.
  explicit Table(std::vector<Column> columns);

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] const std::vector<Column>& columns() const& noexcept { return columns_; }
  [[nodiscard]] std::vector<Column> columns() && { return std::move(columns_); }
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(std::string_view name) const noexcept;
  /// Throws: ValueError, listing the names there are, when there is no such column.
  [[nodiscard]] const Column& column(std::string_view name) const&;
  [[nodiscard]] Column column(std::string_view name) && {
    return std::move(const_cast<Column&>(column(name)));
  }

  /// Shapes: [rows, number of names]. Numbers of these columns, in this order; of all columns where no name
  /// is given. Throws: DTypeError for a column of text, and ValueError when `dtype` is an integer type and a
  /// value is missing, has a fraction, or is out of its range.
  [[nodiscard]] Tensor tensor(const std::vector<std::string>& names = {},
                              const TensorOptions& options = {}) const;
  /// Copies of the texts. Throws: DTypeError for a column of numbers.
  [[nodiscard]] std::vector<std::string> text(std::string_view name) const;
  /// Source: pandas.Categorical.
  [[nodiscard]] Categories categories(std::string_view name) const;

 private:
  std::vector<Column> columns_;
  std::int64_t rows_ = 0;
};

}  // namespace mezzo::data
