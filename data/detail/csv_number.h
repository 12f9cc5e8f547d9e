// Numbers in fields of CSV text, without a locale. Not for use outside of data.
#pragma once

#include <cstdint>
#include <string_view>

namespace mezzo::data::detail {

struct CsvNumber {
  enum class Kind : std::uint8_t { none, integer, real };
  Kind kind = Kind::none;
  std::int64_t integer = 0;
  double real = 0;  ///< of an integer, too
};

/// The number that all of `text` is. Integers of more than 64 bits are real; those beyond the range of double
/// are infinite or 0.
[[nodiscard]] CsvNumber parse_csv_number(std::string_view text) noexcept;

/// `text` without spaces and tabs around it.
[[nodiscard]] inline std::string_view trim_csv(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace mezzo::data::detail
