// Texts of Logger::text and numbers, as the files of sinks show them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mezzo/core/dtype.h"
#include "mezzo/core/value.h"

namespace mezzo::train::detail {

struct TextForm {
  std::vector<std::string> titles;  ///< empty: rows without titles
  std::vector<std::vector<std::string>> rows;
};

/// A map as rows of key and value, maps within as "outer.inner"; a list of maps as rows under the keys of
/// all, in order of appearance. Nothing for other values.
[[nodiscard]] std::optional<TextForm> table_of(const Value& value);

/// A string as it is, other values as JSON.
[[nodiscard]] std::string plain_text(const Value& value, int indent = -1);

/// Appends the shortest text that reads back as the number in its dtype (f32 for 16-bit ones): 0.1 for an f32
/// 0.1; "nan", "inf", "-inf". Independent of locale and of how the processor rounds.
void append_number(std::string& out, double value, DType dtype);

}  // namespace mezzo::train::detail
