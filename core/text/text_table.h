// Tables of text for people, and the numbers in them: model summaries (nn/summary.h), traces (amp/trace.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mezzo {

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t number);
/// 1.005 with 2 digits as "1.00": the same in every locale.
[[nodiscard]] std::string fixed_text(double value, int digits);
/// 999 as "999 B", 12345 as "12.35 kB": powers of 1000.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);
/// 1500000 as "1.5M", 0.00001 as "1e-5", 0.25 as "0.25": four digits.
[[nodiscard]] std::string tick_text(double value);

/// Columns as wide as what is in them, two spaces apart. Cells are UTF-8.
class TextTable {
 public:
  struct Column {
    std::string title;
    bool right = false;  ///< aligned there, as numbers are
  };
  explicit TextTable(std::vector<Column> columns);
  /// One cell per column.
  void add(const std::vector<std::string>& cells);
  /// A line as wide as the table, with its end of line.
  [[nodiscard]] std::string divider() const;
  /// Titles between dividers, then the lines.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::string line(const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> lines_;  // the titles first
};

}  // namespace mezzo
