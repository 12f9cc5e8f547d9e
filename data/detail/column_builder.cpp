// i64 becomes f64 in place; what becomes text is read again, as numbers do not remember how they were
// written.
#include "mezzo/data/detail/column_builder.h"

#include <cmath>
#include <limits>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"

namespace mezzo::data::detail {

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
