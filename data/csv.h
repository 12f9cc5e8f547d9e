// Tables of comma-separated values (RFC 4180): read into named columns of numbers or text.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/data/table.h"

namespace mezzo::data {

/// Which column is meant: by name, or by its number from 0.
struct ColumnKey {
  ColumnKey(std::string name_in) : name(std::move(name_in)) {}
  ColumnKey(const char* name_in) : name(name_in) {}
  template <std::integral I>
  ColumnKey(I number_in) : number(static_cast<std::int64_t>(number_in)) {}

  std::string name;
  std::optional<std::int64_t> number;
};

/// "", "NA", "N/A", "NaN", "nan", "null", "None", ...: what pandas.read_csv takes for a missing value.
[[nodiscard]] std::vector<std::string> default_missing();

struct CsvOptions {
  char delimiter = ',';
  char quote = '"';
  char decimal = '.';                ///< of numbers; ',' where the delimiter is another
  std::optional<char> comment = {};  ///< from it on, the rest of a line is passed over, as '#'
  bool header = true;                ///< the first row holds names
  /// Names of all columns, in place of the header's. Without a header and without these they are "0", "1",
  /// ...
  std::vector<std::string> names = {};
  /// Texts that stand for a missing value, compared without spaces and tabs around them.
  std::vector<std::string> missing = default_missing();
  /// The columns to take, in this order. Empty: all.
  std::vector<ColumnKey> columns = {};
  /// Types of columns. A column that is not named here gets its type from its values.
  std::vector<std::pair<ColumnKey, ColumnType>> dtypes = {};
  /// Stands for a missing value in columns of integers. Without it a missing value makes a column f64.
  std::optional<std::int64_t> fill_value = {};
};

/// The table in a CSV file. Fields may be in quotes, then hold delimiters, line breaks and doubled quotes.
/// Lines end in LF, CRLF or CR; the last one need not end. A byte order mark is passed over, and so are empty
/// lines. Text is bytes, which should be UTF-8.
///
/// A column is i64 where all its values are integers of 64 bits, f64 where they are numbers (decimal, "inf",
/// "nan"; with `decimal` in every locale), else text. True and False, as pandas writes them (also TRUE,
/// true), are 1 and 0. A missing value is NaN among numbers and makes a column of integers f64, unless there
/// is a `fill_value`; it is empty among texts. A column of missing values alone is f64. Numbers beyond the
/// range of double are infinite or 0. Spaces and tabs around numbers are passed over.
///
/// At most kMaxCsvColumns columns. Memory: 8 bytes per number, and of text its bytes and 8 for each, besides
/// what vectors keep in reserve.
///
/// Throws: IoError, naming file, line and column, for rows of different lengths, a quote that is not closed
/// or has text behind it, a value that is not of the type asked for, and a name that occurs twice among the
/// columns taken; ValueError for options that name no column. Source: pandas.read_csv.
[[nodiscard]] Table read_csv(const std::string& path, const CsvOptions& options = {});

inline constexpr std::size_t kMaxCsvColumns = 131072;

}  // namespace mezzo::data
