// Regular expressions that name modules by their paths.
#pragma once

#include <regex>
#include <string>

#include "mezzo/core/error.h"

namespace mezzo::nn::detail {

/// `text` as an ECMAScript expression. Throws: ValueError in the name of `op` for a text that is none.
[[nodiscard]] inline std::regex path_pattern(const std::string& op, const std::string& text) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    throw ValueError(op, "a path of the model, or a regular expression",
                     "'" + text + "' (" + error.what() + ")", "escape dots as \\\\.");
  }
}

}  // namespace mezzo::nn::detail
