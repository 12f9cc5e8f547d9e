// JSON text to a Value and back; the text itself is not kept.
#include "mezzo/io/json.h"

#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/file_kind.h"
#include "mezzo/io/detail/json_scanner.h"

namespace mezzo::io {

Value parse_json(std::string_view text, const JsonLimits& limits) {
  return detail::JsonScanner(
             "parse_json", [text](std::size_t at) { return text.substr(at); }, limits)
      .read();
}

Value read_json_file(const std::string& path, const JsonLimits& limits) {
  const std::vector<std::byte> bytes = read_file(path);
  try {
    return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, limits);
  } catch (const IoError& error) {
    const std::string op = "read_json_file '" + path + "'";
    detail::refuse_other_file(op, "JSON", bytes);
    throw IoError(op, error.expected(), error.got(), error.fix());
  }
}

std::string dump_json(const Value& value, int indent) { return value.to_string(indent); }

void write_json_file(const std::string& path, const Value& value) {
  AtomicFile file(path);
  file.write(value.to_string(2) + "\n");
  file.commit();
}

}  // namespace mezzo::io
