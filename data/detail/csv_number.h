// Numbers in fields of CSV text, without a locale. Not for use outside of data.
#pragma once

#include <cstddef>
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
[[nodiscard]] CsvNumber parse_any_csv_number(std::string_view text) noexcept;

/// parse_any_csv_number(), quicker where `text` is a few digits, which most integers are.
[[nodiscard]] inline CsvNumber parse_csv_number(std::string_view text) noexcept {
  constexpr std::size_t kFitsAnyway = 15;  // digits that a double holds, too
  std::int64_t value = 0;
  std::size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && at <= kFitsAnyway; ++at)
    value = value * 10 + (text[at] - '0');
  if (at == 0 || at < text.size()) return parse_any_csv_number(text);
  return {.kind = CsvNumber::Kind::integer, .integer = value, .real = static_cast<double>(value)};
}

/// `text` without spaces and tabs around it.
[[nodiscard]] inline std::string_view trim_csv(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace mezzo::data::detail
