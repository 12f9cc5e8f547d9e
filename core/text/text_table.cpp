// Columns are as wide as their longest cell in UTF-8 characters, not bytes. Also the formatting of large
// numbers and byte counts.
#include "mezzo/core/text/text_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace mezzo {

namespace {

/// Characters of UTF-8 text: bytes that do not continue one.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  constexpr std::array kUnits{"kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fixed_text(value, 2) + " " + kUnits[unit];
}

std::string fixed_text(double value, int digits) {
  std::array<char, 512> text{};  // the largest number has 309 digits before the point
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits);
  return {text.data(), end.ptr};
}

std::string tick_text(double value) {
  constexpr std::array kPrefixes{"", "k", "M", "G", "T"};
  double size = std::abs(value);
  std::size_t prefix = 0;
  for (const bool has_prefix = size >= 1e4 && size < 1e15; has_prefix && size >= 1e3; size /= 1e3) ++prefix;
  std::array<char, 40> buffer{};
  char* const end = buffer.data() + buffer.size();
  std::string text(buffer.data(), std::to_chars(buffer.data(), end, size, std::chars_format::general, 4).ptr);
  // 1e-05 as 1e-5, 1e+20 as 1e20.
  if (const std::size_t at = text.find("e-0"); at != std::string::npos) text.erase(at + 2, 1);
  if (const std::size_t at = text.find('+'); at != std::string::npos) text.erase(at, 1);
  return (value < 0 ? "-" : "") + text + kPrefixes[prefix];
}

TextTable::TextTable(std::vector<Column> columns)
    : columns_(std::move(columns)), widths_(columns_.size(), 0) {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  add(titles);
}

void TextTable::add(const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], width_of(cells[i]));
  lines_.push_back(cells);
}

std::string TextTable::divider() const {
  std::size_t total = 0;
  for (const std::size_t width : widths_) total += width + 2;
  return std::string(total - 2, '=') + "\n";
}

std::string TextTable::line(const std::vector<std::string>& cells) const {
  std::string row;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string space(widths_[i] - width_of(cells[i]), ' ');
    row += (i == 0 ? "" : "  ") + (columns_[i].right ? space + cells[i] : cells[i] + space);
  }
  return row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
}

std::string TextTable::text() const {
  std::string text = divider() + line(lines_.front()) + divider();
  for (std::size_t i = 1; i < lines_.size(); ++i) text += line(lines_[i]);
  return text;
}

}  // namespace mezzo
