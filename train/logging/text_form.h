// The form in which a text of Logger::text is shown: a table where it is one.
#pragma once

#include <optional>
#include <string>
#include <vector>

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

}  // namespace mezzo::train::detail
