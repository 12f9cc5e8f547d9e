// Which columns of a CSV file are taken, how each finds its type, and the walk over its rows. The file is
// mapped, so that it takes no memory beside the columns, and read a second time for columns whose type
// changed on the way.
#include "mezzo/data/csv.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/data/detail/csv_scanner.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::data {

namespace {

using detail::CsvScanner;

// --- the numbers in fields

/// A number in a field, without a locale.
struct CsvNumber {
  enum class Kind : std::uint8_t { none, integer, real };
  Kind kind = Kind::none;
  std::int64_t integer = 0;
  double real = 0;  ///< of an integer, too
};

bool is_csv_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// Whether `text` is `word`, which is in small letters, in any mix of capitals.
bool is_csv_word(std::string_view text, std::string_view word) noexcept {
  if (text.size() != word.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) | 0x20U) != static_cast<unsigned char>(word[i])) return false;
  }
  return true;
}

/// Whether a decimal number that is not 0 and beyond the range of double is too large, not too small.
bool is_csv_overflow(std::string_view digits) noexcept {
  constexpr std::int64_t kFar = 1'000'000'000'000'000;
  std::size_t at = 0;
  std::int64_t power = 0;  // of the first digit that is not 0
  bool found = false, fraction = false;
  for (; at < digits.size() && (is_csv_digit(digits[at]) || digits[at] == '.'); ++at) {
    if (digits[at] == '.') {
      fraction = true;
      continue;
    }
    if (fraction && !found) --power;
    found = found || digits[at] != '0';
    if (!fraction && found) ++power;
  }
  std::int64_t exponent = 0;
  if (at < digits.size()) {
    const bool negative = ++at < digits.size() && digits[at] == '-';
    if (at < digits.size() && !is_csv_digit(digits[at])) ++at;
    for (; at < digits.size() && exponent < kFar; ++at) exponent = exponent * 10 + (digits[at] - '0');
    if (negative) exponent = -exponent;
  }
  return power + exponent > 0;
}

CsvNumber csv_real(std::string_view digits, bool negative) noexcept {
  CsvNumber number{.kind = CsvNumber::Kind::real};
  if (is_csv_word(digits, "inf") || is_csv_word(digits, "infinity")) {
    number.real = std::numeric_limits<double>::infinity();
  } else if (is_csv_word(digits, "nan")) {
    number.real = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (!is_csv_digit(digits.front()) && digits.front() != '.') return {};
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, number.real);
    if (stop != end || error == std::errc::invalid_argument) return {};
    if (error == std::errc::result_out_of_range)
      number.real = is_csv_overflow(digits) ? std::numeric_limits<double>::infinity() : 0.0;
  }
  if (negative) number.real = -number.real;
  return number;
}

/// 1 and 0 for what pandas takes for bools.
CsvNumber csv_bool(std::string_view text) noexcept {
  const bool is_true = text == "True" || text == "TRUE" || text == "true";
  if (!is_true && text != "False" && text != "FALSE" && text != "false") return {};
  return {.kind = CsvNumber::Kind::integer, .integer = is_true ? 1 : 0, .real = is_true ? 1.0 : 0.0};
}

/// The number that all of `text` is, by std::from_chars, and the cases that it leaves out: a plus sign, and
/// numbers beyond the range. Integers of more than 64 bits are real; those beyond the range of double are
/// infinite or 0.
CsvNumber parse_any_csv_number(std::string_view text) noexcept {
  if (const CsvNumber word = csv_bool(text); word.kind != CsvNumber::Kind::none) return word;
  const bool negative = !text.empty() && text.front() == '-';
  if (negative || (!text.empty() && text.front() == '+')) text.remove_prefix(1);
  if (text.empty()) return {};
  std::uint64_t value = 0;
  const std::uint64_t most = std::uint64_t{std::numeric_limits<std::int64_t>::max()} + (negative ? 1U : 0U);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error != std::errc() || value > most) return csv_real(text, negative);
  const auto real = static_cast<double>(value);
  return {.kind = CsvNumber::Kind::integer,
          .integer = static_cast<std::int64_t>(negative ? 0 - value : value),
          .real = negative ? -real : real};
}

/// parse_any_csv_number(), quicker where `text` is a few digits, which most integers are.
CsvNumber parse_csv_number(std::string_view text) noexcept {
  constexpr std::size_t kFitsAnyway = 15;  // digits that a double holds, too
  std::int64_t value = 0;
  std::size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && at <= kFitsAnyway; ++at)
    value = value * 10 + (text[at] - '0');
  if (at == 0 || at < text.size()) return parse_any_csv_number(text);
  return {.kind = CsvNumber::Kind::integer, .integer = value, .real = static_cast<double>(value)};
}

/// parse_csv_number() where numbers have another sign than '.' before their fraction.
CsvNumber parse_csv_number(std::string_view text, char decimal) {
  if (decimal == '.') return parse_csv_number(text);
  if (text.find('.') != std::string_view::npos) return {};
  std::string with_dot(text);
  if (const std::size_t at = text.find(decimal); at != std::string_view::npos) with_dot[at] = '.';
  return parse_csv_number(with_dot);
}

/// `text` without spaces and tabs around it.
std::string_view trim_csv(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// --- columns

/// The texts that stand for a missing value.
class MissingValues {
 public:
  explicit MissingValues(const std::vector<std::string>& values) : values_(values) {
    for (const std::string& value : values_) {
      if (value.empty()) {
        empty_ = true;
        continue;
      }
      const std::size_t length = value.size() < 63 ? value.size() : 63;
      lengths_[static_cast<unsigned char>(value.front())] |= std::uint64_t{1} << length;
    }
  }
  [[nodiscard]] bool contains(std::string_view text) const noexcept {
    if (text.empty()) return empty_;
    // Most fields begin with something that no such text of their length begins with.
    const std::size_t length = text.size() < 63 ? text.size() : 63;
    return ((lengths_[static_cast<unsigned char>(text.front())] >> length) & 1U) != 0 && is_one(text);
  }

 private:
  [[nodiscard]] bool is_one(std::string_view text) const noexcept {
    for (const std::string& value : values_) {
      if (value == text) return true;
    }
    return false;
  }

  std::vector<std::string> values_;
  std::array<std::uint64_t, 256> lengths_{};  ///< by first byte, a bit for each length, the last for longer
  bool empty_ = false;
};

/// The options that all columns of a file share.
struct ColumnRules {
  MissingValues missing;
  std::optional<std::int64_t> fill_value;
  char decimal = '.';
};

/// A column of the file while it is read: its type follows from its values, unless it was asked for. i64
/// becomes f64 in place; what becomes text is read again, as numbers do not remember how they were written.
class ColumnBuilder {
 public:
  /// `number` is the column's place in the file, from 0, for messages.
  ColumnBuilder(std::string name, std::size_t number, std::optional<ColumnType> type)
      : number_(number), is_asked_for_(type.has_value()), is_begun_(type.has_value()) {
    column_.name = std::move(name);
    if (type) column_.type = *type;
  }

  /// Takes the field that the scanner gave last. Throws: IoError when it is not of the type asked for.
  void add(std::string_view field, const ColumnRules& rules, const CsvScanner& scanner) {
    if (again_ == ColumnType::text) return;
    const std::string_view trimmed = trim_csv(field);
    if (rules.missing.contains(trimmed)) {
      add_missing(rules, scanner);
      return;
    }
    if (is_begun_ && column_.type == ColumnType::text) {
      add_text(field);
      return;
    }
    const CsvNumber number = parse_csv_number(trimmed, rules.decimal);
    const bool is_integer = number.kind == CsvNumber::Kind::integer;
    if (number.kind == CsvNumber::Kind::none) {
      if (is_asked_for_) refuse(quote(field), "ask for text, or say in .missing what it is", scanner);
      if (is_begun_) {
        become(ColumnType::text);
        return;
      }
      begin(ColumnType::text, rules);
      add_text(field);
      return;
    }
    if (!is_begun_) begin(is_integer ? ColumnType::i64 : ColumnType::f64, rules);
    if (column_.type == ColumnType::i64 && !is_integer) {
      if (is_asked_for_) refuse(quote(field), "ask for f64", scanner);
      become(ColumnType::f64);
    }
    add_number(number);
  }
  /// The type, where values seen before the type was clear were not kept as it needs them: the file is to be
  /// read again for this column.
  [[nodiscard]] std::optional<ColumnType> wants_again() const noexcept { return again_; }
  [[nodiscard]] const std::string& name() const noexcept { return column_.name; }
  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  [[nodiscard]] Column take() {
    if (!is_begun_) {
      column_.reals.assign(static_cast<std::size_t>(missing_), std::numeric_limits<double>::quiet_NaN());
    }
    return std::move(column_);
  }

 private:
  void add_text(std::string_view field) {
    column_.bytes.append(field);
    column_.ends.push_back(column_.bytes.size());
  }

  void add_missing(const ColumnRules& rules, const CsvScanner& scanner) {
    if (!is_begun_) {
      ++missing_;
    } else if (column_.type == ColumnType::text) {
      add_text("");
    } else if (column_.type == ColumnType::i64 && rules.fill_value) {
      column_.integers.push_back(*rules.fill_value);
      other_as_f64_ = true;
    } else {
      if (column_.type == ColumnType::i64) {
        if (is_asked_for_) refuse("a missing value", "give a .fill_value, or ask for f64", scanner);
        become(ColumnType::f64);
      }
      column_.reals.push_back(std::numeric_limits<double>::quiet_NaN());
    }
  }

  void add_number(const CsvNumber& number) {
    if (column_.type == ColumnType::f64) {
      column_.reals.push_back(number.real);
      return;
    }
    if (number.integer == 0 && std::signbit(number.real)) other_as_f64_ = true;
    column_.integers.push_back(number.integer);
  }

  /// The first value that is not missing says what the column is.
  void begin(ColumnType type, const ColumnRules& rules) {
    is_begun_ = true;
    const auto missing = static_cast<std::size_t>(missing_);
    if (type == ColumnType::i64 && missing > 0 && !rules.fill_value) type = ColumnType::f64;
    column_.type = type;
    if (type == ColumnType::i64) {
      column_.integers.assign(missing, rules.fill_value.value_or(0));
      other_as_f64_ = missing > 0;
    }
    if (type == ColumnType::f64) column_.reals.assign(missing, std::numeric_limits<double>::quiet_NaN());
    if (type == ColumnType::text) column_.ends.assign(missing, 0);
  }

  void become(ColumnType type) {
    if (type == ColumnType::text || other_as_f64_) again_ = type;
    column_.type = type;
    if (type == ColumnType::f64) column_.reals.assign(column_.integers.begin(), column_.integers.end());
    if (type == ColumnType::text) column_.reals = {};
    column_.integers = {};
  }

  [[noreturn]] void refuse(std::string_view got, std::string_view fix, const CsvScanner& scanner) const {
    const std::string_view wanted = column_.type == ColumnType::i64 ? "an integer of 64 bits" : "a number";
    throw IoError(scanner.op(),
                  std::string(wanted) + " in " + scanner.field_place() + ", column " +
                      std::to_string(number_ + 1) + " (" + quote(column_.name) + ")",
                  got, fix);
  }

  Column column_;
  std::size_t number_;
  bool is_asked_for_;
  bool is_begun_;              ///< the type is known, so far
  bool other_as_f64_ = false;  ///< among the integers are some that f64 knows as others: "-0", missing ones
  std::uint64_t missing_ = 0;  ///< values before it was begun
  std::optional<ColumnType> again_;
};

// --- which columns are taken

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
               const ColumnRules& rules) {
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
  const char comment = options.comment.value_or('\0');
  if (options.decimal == options.delimiter || options.decimal == options.quote ||
      is_csv_digit(options.decimal) ||
      (options.comment && (comment == options.delimiter || comment == options.quote || is_break(comment)))) {
    throw ValueError("read_csv", "a .decimal and a .comment that differ from .delimiter and .quote",
                     quote({&options.decimal, 1}) + " and " + quote({&comment, 1}),
                     "give another .delimiter");
  }
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
                     options.delimiter, options.quote, options.comment);
  const std::vector<std::string> names = column_names(scanner, options);
  const ColumnRules rules{.missing = MissingValues(options.missing),
                          .fill_value = options.fill_value,
                          .decimal = options.decimal};
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
