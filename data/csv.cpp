// Which columns of a CSV file are taken, and the walk over its rows. The file is mapped, so that it takes no
// memory beside the columns, and read a second time for columns whose type changed on the way.
#include "mezzo/data/csv.h"

#include <unordered_map>
#include <unordered_set>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/data/detail/column_builder.h"
#include "mezzo/data/detail/csv_scanner.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::data {

namespace {

using detail::ColumnBuilder;
using detail::CsvScanner;

std::string csv_names_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 8; ++i) text += (i == 0 ? "" : ", ") + quote(names[i], 40);
  return text + (names.size() > 8 ? ", ..." : "");
}

/// The fields of the first row, which are the columns' names or as many as there are columns.
std::vector<std::string> first_row(CsvScanner& scanner) {
  std::vector<std::string> fields;
  if (!scanner.next_row())
    throw IoError(scanner.op(), "a row", "none", "check the path; a table has a row at least");
  while (!scanner.row_ended()) {
    if (fields.size() == kMaxCsvColumns) {
      throw IoError(scanner.op(), "at most " + std::to_string(kMaxCsvColumns) + " columns", "more",
                    "check .delimiter");
    }
    fields.emplace_back(scanner.next_field());
  }
  return fields;
}

/// The names of the file's columns; the scanner stands behind the header then.
std::vector<std::string> column_names(CsvScanner& scanner, const CsvOptions& options) {
  const CsvScanner begin = scanner;
  std::vector<std::string> names = first_row(scanner);
  if (!options.names.empty() && options.names.size() != names.size()) {
    throw IoError(scanner.op(),
                  "as many columns as .names, which are " + std::to_string(options.names.size()),
                  std::to_string(names.size()), "name all columns of the file");
  }
  if (!options.header) {
    scanner = begin;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i);
  }
  return options.names.empty() ? names : options.names;
}

/// Finds columns by their keys.
class ColumnFinder {
 public:
  ColumnFinder(const std::string& op, const std::vector<std::string>& names) : op_(op), names_(names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto [place, is_new] = numbers_.emplace(names[i], i);
      if (!is_new) twice_.emplace(names[i], i);
    }
  }

  [[nodiscard]] std::size_t find(const ColumnKey& key) const {
    if (key.number) {
      if (*key.number >= 0 && static_cast<std::size_t>(*key.number) < names_.size())
        return static_cast<std::size_t>(*key.number);
      throw ValueError(op_, "a column from 0 to " + std::to_string(names_.size() - 1),
                       std::to_string(*key.number), "");
    }
    const auto found = numbers_.find(key.name);
    if (found == numbers_.end()) {
      throw ValueError(op_, "the name of a column: " + csv_names_text(names_), quote(key.name),
                       "check the spelling, .delimiter and .header");
    }
    refuse_twice(found->second);
    return found->second;
  }

  /// Throws where another column has the name of this one.
  void refuse_twice(std::size_t column) const {
    const auto second = twice_.find(names_[column]);
    if (second == twice_.end()) return;
    throw IoError(op_, "distinct names of columns",
                  quote(names_[column]) + " for column " + std::to_string(numbers_.at(names_[column]) + 1) +
                      " and column " + std::to_string(second->second + 1),
                  "give .names, or take one of them by its number in .columns");
  }

 private:
  const std::string& op_;
  const std::vector<std::string>& names_;
  std::unordered_map<std::string_view, std::size_t> numbers_, twice_;
};

std::vector<ColumnBuilder> plan_columns(const std::string& op, const std::vector<std::string>& names,
                                        const CsvOptions& options) {
  const ColumnFinder finder(op, names);
  std::unordered_map<std::size_t, ColumnType> types;
  for (const auto& [key, type] : options.dtypes) types.insert_or_assign(finder.find(key), type);
  std::vector<std::size_t> numbers;
  if (options.columns.empty()) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      finder.refuse_twice(i);
      numbers.push_back(i);
    }
  }
  for (const ColumnKey& key : options.columns) numbers.push_back(finder.find(key));
  std::unordered_set<std::size_t> taken;
  std::vector<ColumnBuilder> builders;
  builders.reserve(numbers.size());
  for (const std::size_t number : numbers) {
    if (!taken.insert(number).second)
      throw ValueError(op, "distinct columns", quote(names[number]) + " twice in .columns", "take it once");
    const auto type = types.find(number);
    builders.emplace_back(names[number], number,
                          type == types.end() ? std::nullopt : std::optional(type->second));
  }
  return builders;
}

/// Which builder takes a column of the file: a position in `builders` for each, or -1.
std::vector<std::ptrdiff_t> takers_of(const std::vector<ColumnBuilder>& builders, std::size_t columns) {
  std::vector<std::ptrdiff_t> takers(columns, -1);
  for (std::size_t i = 0; i < builders.size(); ++i)
    takers[builders[i].number()] = static_cast<std::ptrdiff_t>(i);
  return takers;
}

[[noreturn]] void refuse_row(const CsvScanner& scanner, std::size_t expected, const std::string& got) {
  throw IoError(scanner.op(), std::to_string(expected) + " fields in " + scanner.row_place(), got,
                "write all fields, also empty ones, and quote those that hold a delimiter");
}

/// All rows that are left, to the builders.
void read_rows(CsvScanner scanner, std::vector<ColumnBuilder>& builders, std::size_t columns,
               const detail::ColumnRules& rules) {
  const std::vector<std::ptrdiff_t> takers = takers_of(builders, columns);
  while (scanner.next_row()) {
    std::size_t column = 0;
    for (; !scanner.row_ended(); ++column) {
      const std::string_view field = scanner.next_field();
      if (column == columns) refuse_row(scanner, columns, "more");
      if (takers[column] >= 0) builders[static_cast<std::size_t>(takers[column])].add(field, rules, scanner);
    }
    if (column < columns) refuse_row(scanner, columns, std::to_string(column));
  }
}

void check_options(const CsvOptions& options) {
  const auto is_break = [](char c) { return c == '\n' || c == '\r'; };
  if (options.delimiter == options.quote || is_break(options.delimiter) || is_break(options.quote)) {
    throw ValueError("read_csv", "a .delimiter and a .quote that differ and end no line",
                     quote({&options.delimiter, 1}) + " and " + quote({&options.quote, 1}), "");
  }
}

}  // namespace

std::vector<std::string> default_missing() {
  return {"",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
          "<NA>", "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null"};
}

Table read_csv(const std::string& path, const CsvOptions& options) {
  check_options(options);
  const io::MappedFile file(path, "read_csv");
  CsvScanner scanner(file.op(), {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                     options.delimiter, options.quote);
  const std::vector<std::string> names = column_names(scanner, options);
  const detail::ColumnRules rules{.missing = detail::MissingValues(options.missing),
                                  .fill_value = options.fill_value};
  std::vector<ColumnBuilder> builders = plan_columns(file.op(), names, options);
  read_rows(scanner, builders, names.size(), rules);

  std::vector<ColumnBuilder> again;
  for (const ColumnBuilder& builder : builders) {
    if (builder.wants_again()) again.emplace_back(builder.name(), builder.number(), builder.wants_again());
  }
  if (!again.empty()) read_rows(scanner, again, names.size(), rules);
  std::vector<Column> columns;
  columns.reserve(builders.size());
  std::size_t next = 0;
  for (ColumnBuilder& builder : builders)
    columns.push_back(builder.wants_again() ? again[next++].take() : builder.take());
  return Table(std::move(columns));
}

}  // namespace mezzo::data
