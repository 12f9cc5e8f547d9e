// i64 becomes f64 in place; what becomes text is read again, as numbers do not remember how they were
// written.
#include "mezzo/data/detail/column_builder.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"

namespace mezzo::data::detail {

/// A number in a field, without a locale.
struct CsvNumber {
  enum class Kind : std::uint8_t { none, integer, real };
  Kind kind = Kind::none;
  std::int64_t integer = 0;
  double real = 0;  ///< of an integer, too
};

namespace {

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

/// The number that all of `text` is, by std::from_chars, and the cases that it leaves out: a plus sign, and
/// numbers beyond the range. Integers of more than 64 bits are real; those beyond the range of double are
/// infinite or 0.
CsvNumber parse_any_csv_number(std::string_view text) noexcept {
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

/// `text` without spaces and tabs around it.
std::string_view trim_csv(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

MissingValues::MissingValues(const std::vector<std::string>& values) : values_(values) {
  for (const std::string& value : values_) {
    if (value.empty()) {
      empty_ = true;
      continue;
    }
    const std::size_t length = value.size() < 63 ? value.size() : 63;
    lengths_[static_cast<unsigned char>(value.front())] |= std::uint64_t{1} << length;
  }
}

bool MissingValues::is_one(std::string_view text) const noexcept {
  for (const std::string& value : values_) {
    if (value == text) return true;
  }
  return false;
}

ColumnBuilder::ColumnBuilder(std::string name, std::size_t number, std::optional<ColumnType> type)
    : number_(number), is_asked_for_(type.has_value()), is_begun_(type.has_value()) {
  column_.name = std::move(name);
  if (type) column_.type = *type;
}

void ColumnBuilder::add(std::string_view field, const ColumnRules& rules, const CsvScanner& scanner) {
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
  const CsvNumber number = parse_csv_number(trimmed);
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

void ColumnBuilder::add_text(std::string_view field) {
  column_.bytes.append(field);
  column_.ends.push_back(column_.bytes.size());
}

void ColumnBuilder::add_missing(const ColumnRules& rules, const CsvScanner& scanner) {
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

void ColumnBuilder::add_number(const CsvNumber& number) {
  if (column_.type == ColumnType::f64) {
    column_.reals.push_back(number.real);
    return;
  }
  if (number.integer == 0 && std::signbit(number.real)) other_as_f64_ = true;
  column_.integers.push_back(number.integer);
}

/// The first value that is not missing says what the column is.
void ColumnBuilder::begin(ColumnType type, const ColumnRules& rules) {
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

void ColumnBuilder::become(ColumnType type) {
  if (type == ColumnType::text || other_as_f64_) again_ = type;
  column_.type = type;
  if (type == ColumnType::f64) column_.reals.assign(column_.integers.begin(), column_.integers.end());
  if (type == ColumnType::text) column_.reals = {};
  column_.integers = {};
}

void ColumnBuilder::refuse(std::string_view got, std::string_view fix, const CsvScanner& scanner) const {
  const std::string_view wanted = column_.type == ColumnType::i64 ? "an integer of 64 bits" : "a number";
  throw IoError(scanner.op(),
                std::string(wanted) + " in " + scanner.field_place() + ", column " +
                    std::to_string(number_ + 1) + " (" + quote(column_.name) + ")",
                got, fix);
}

Column ColumnBuilder::take() {
  if (!is_begun_) {
    column_.reals.assign(static_cast<std::size_t>(missing_), std::numeric_limits<double>::quiet_NaN());
  }
  return std::move(column_);
}

}  // namespace mezzo::data::detail
