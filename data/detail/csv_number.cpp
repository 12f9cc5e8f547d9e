// std::from_chars, and the cases that it leaves out: a plus sign, and numbers beyond the range.
#include "mezzo/data/detail/csv_number.h"

#include <charconv>
#include <cstddef>
#include <limits>
#include <system_error>

namespace mezzo::data::detail {

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

}  // namespace

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

}  // namespace mezzo::data::detail
