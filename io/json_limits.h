// How much JSON text may say: what whoever reads it can ask for.
#pragma once

#include <cstddef>
#include <limits>

namespace mezzo::io {

/// The most that `parse_json` accepts.
struct JsonLimits {
  /// Lists and maps within each other. Bounds the stack that reading, and work on the result, need.
  std::size_t max_depth = 128;
  /// Values in total, lists and maps included. Bounds the memory: two bytes of text can become a value of 40.
  std::size_t max_values = std::numeric_limits<std::size_t>::max();
};

}  // namespace mezzo::io
