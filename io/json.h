// JSON text to `Value` and back. The parser is our own (json_scanner.h), since JSON also arrives from files
// nobody vouches for: it has limits, refuses duplicate keys, says where a fault is, and reads a text that is
// not in memory. tests/fuzz compares it with nlohmann_json's.
#pragma once

#include <string>
#include <string_view>

#include "mezzo/core/value.h"
#include "mezzo/io/json_limits.h"

namespace mezzo::io {

/// The value that `text` (UTF-8, RFC 8259) denotes. Numbers without '.' and exponent become int, or double
/// when they do not fit 64 bits signed; all others double, rounded to nearest. Throws: IoError with line,
/// column and byte (counted from 1) for malformed text, text after the value, duplicate keys, numbers beyond
/// the range of double, and for what exceeds `limits`.
[[nodiscard]] Value parse_json(std::string_view text, const JsonLimits& limits = {});

/// `parse_json` on the content of a file; errors name the file.
[[nodiscard]] Value read_json_file(const std::string& path, const JsonLimits& limits = {});

/// `value.to_string(indent)`: JSON text that `parse_json` turns into an equal value, but for doubles that are
/// not finite, which come back as the strings that `Value::as_double` understands.
[[nodiscard]] std::string dump_json(const Value& value, int indent = -1);

/// Writes `value`, indented by two spaces and ended by a line break, all or nothing (see AtomicFile).
void write_json_file(const std::string& path, const Value& value);

}  // namespace mezzo::io
