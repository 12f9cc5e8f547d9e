// A column of a CSV file while it is read: its type follows from its values, unless it was asked for. Not for
// use outside of data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/data/detail/csv_scanner.h"
#include "mezzo/data/table.h"

namespace mezzo::data::detail {

struct CsvNumber;

/// The texts that stand for a missing value.
class MissingValues {
 public:
  explicit MissingValues(const std::vector<std::string>& values);
  [[nodiscard]] bool contains(std::string_view text) const noexcept {
    if (text.empty()) return empty_;
    // Most fields begin with something that no such text of their length begins with.
    const std::size_t length = text.size() < 63 ? text.size() : 63;
    return ((lengths_[static_cast<unsigned char>(text.front())] >> length) & 1U) != 0 && is_one(text);
  }

 private:
  [[nodiscard]] bool is_one(std::string_view text) const noexcept;

  std::vector<std::string> values_;
  std::array<std::uint64_t, 256> lengths_{};  ///< by first byte, a bit for each length, the last for longer
  bool empty_ = false;
};

/// The options that all columns of a file share.
struct ColumnRules {
  MissingValues missing;
  std::optional<std::int64_t> fill_value;
};

class ColumnBuilder {
 public:
  /// `number` is the column's place in the file, from 0, for messages.
  ColumnBuilder(std::string name, std::size_t number, std::optional<ColumnType> type);

  /// Takes the field that the scanner gave last. Throws: IoError when it is not of the type asked for.
  void add(std::string_view field, const ColumnRules& rules, const CsvScanner& scanner);
  /// The type, where values seen before the type was clear were not kept as it needs them: the file is to be
  /// read again for this column.
  [[nodiscard]] std::optional<ColumnType> wants_again() const noexcept { return again_; }
  [[nodiscard]] const std::string& name() const noexcept { return column_.name; }
  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  [[nodiscard]] Column take();

 private:
  void add_text(std::string_view field);
  void add_missing(const ColumnRules& rules, const CsvScanner& scanner);
  void add_number(const CsvNumber& number);
  void begin(ColumnType type, const ColumnRules& rules);
  void become(ColumnType type);
  [[noreturn]] void refuse(std::string_view got, std::string_view fix, const CsvScanner& scanner) const;

  Column column_;
  std::size_t number_;
  bool is_asked_for_;
  bool is_begun_;              ///< the type is known, so far
  bool other_as_f64_ = false;  ///< among the integers are some that f64 knows as others: "-0", missing ones
  std::uint64_t missing_ = 0;  ///< values before it was begun
  std::optional<ColumnType> again_;
};

}  // namespace mezzo::data::detail
