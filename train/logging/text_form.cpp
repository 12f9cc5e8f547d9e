// Maps and lists of maps as rows of cells, numbers by std::to_chars.
#include "mezzo/train/logging/text_form.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "mezzo/core/parallel/float_environment.h"

namespace mezzo::train::detail {

namespace {

constexpr std::size_t kMostLevels = 100;

void add_rows(const Value& map, const std::string& prefix, std::size_t level, TextForm& table) {
  for (const auto& [key, value] : map.as_map()) {
    if (value.is_map() && value.size() > 0 && level < kMostLevels) {
      add_rows(value, prefix + key + ".", level + 1, table);
    } else {
      table.rows.push_back({prefix + key, plain_text(value)});
    }
  }
}

bool is_list_of_maps(const Value& value) {
  if (!value.is_list() || value.size() == 0) return false;
  const Value::List& list = value.as_list();
  return std::all_of(list.begin(), list.end(), [](const Value& entry) { return entry.is_map(); });
}

}  // namespace

std::string plain_text(const Value& value, int indent) {
  return value.is_string() ? value.as_string() : value.to_string(indent);
}

std::optional<TextForm> table_of(const Value& value) {
  TextForm table;
  if (value.is_map()) {
    add_rows(value, "", 0, table);
    return table;
  }
  if (!is_list_of_maps(value)) return {};
  for (const Value& row : value.as_list()) {
    for (const auto& [key, cell] : row.as_map()) {
      if (std::find(table.titles.begin(), table.titles.end(), key) == table.titles.end())
        table.titles.push_back(key);
    }
  }
  for (const Value& row : value.as_list()) {
    std::vector<std::string> cells;
    for (const std::string& title : table.titles) {
      const Value* const cell = row.find(title);
      cells.push_back(cell == nullptr ? "" : plain_text(*cell));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

void append_number(std::string& out, double value, DType dtype) {
  if (std::isnan(value)) value = std::abs(value);  // a NaN has a sign, which is not to be written
  // Where a program flushes them to zero, subnormal numbers would be written as 0.
  const mezzo::detail::WithFloatEnvironment standard(mezzo::detail::FloatEnvironment::standard());
  std::array<char, 32> text{};  // the longest shortest form of a double has 24 characters
  char* const begin = text.data();
  char* const end = begin + text.size();
  const bool narrow = dtype == DType::f32 || is_16bit(dtype);
  out.append(begin, narrow ? std::to_chars(begin, end, static_cast<float>(value)).ptr
                           : std::to_chars(begin, end, value).ptr);
}

}  // namespace mezzo::train::detail
