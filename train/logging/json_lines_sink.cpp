// The JSON Lines sink.
#include "mezzo/train/json_lines_sink.h"

#include <cmath>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/io/json.h"
#include "mezzo/train/logging/log_file.h"
#include "mezzo/train/logging/text_form.h"

namespace mezzo::train {

namespace {

void append_string(std::string& out, std::string_view text) {
  out += quote(text, std::numeric_limits<std::size_t>::max());
}

void append_json_number(std::string& out, double value, DType dtype) {
  const bool finite = std::isfinite(value);
  if (!finite) out += '"';
  detail::append_number(out, value, dtype);
  if (!finite) out += '"';
}

void begin_object(std::string& out, std::int64_t step, double time) {
  out = "{\"step\":" + std::to_string(step) + ",\"time\":";
  detail::append_number(out, time, DType::f64);
}

/// The step of a line.
std::int64_t line_step(std::string_view line, std::uint64_t number, const std::string& path) {
  const auto refuse = [&](const std::string& problem) {
    throw IoError("read '" + path + "'", "an object with a step in line " + std::to_string(number), problem,
                  "give the path of a JSONLinesSink's file, or move this one away");
  };
  try {
    const Value value = io::parse_json(line, {.max_depth = 128, .max_values = 1'000'000});
    const Value* const step = value.is_map() ? value.find("step") : nullptr;
    if (step == nullptr || !step->is_int() || step->as_int() < 0) refuse(quote(line));
    return step->as_int();
  } catch (const IoError& error) {
    if (error.op().substr(0, 4) == "read") throw;
    refuse(error.got());
  }
  return 0;
}

}  // namespace

JSONLinesSink::JSONLinesSink(std::string path, JSONLinesSinkOptions options)
    : FileSink(std::move(path), options.every) {}

void JSONLinesSink::add_line() {
  if (!file().is_started()) file().start();
  line_ += "}\n";
  file().append(line_);
}

void JSONLinesSink::write(const LogRecord& record) {
  begin_object(line_, record.step, record.time);
  for (const LogScalar& value : record.values) {
    line_ += ',';
    append_string(line_, value.name);
    line_ += ':';
    append_json_number(line_, value.value, value.dtype);
  }
  add_line();
}

void JSONLinesSink::write_text(const LogText& text) {
  begin_object(line_, text.step, text.time);
  line_ += ",\"text\":{";
  append_string(line_, text.name);
  (line_ += ':') += text.value.to_string();
  line_ += '}';
  add_line();
}

void JSONLinesSink::resume(std::int64_t step) {
  file().rewrite([&](std::string_view line, std::uint64_t number, std::string& out) {
    if (line.data() == nullptr || line_step(line, number, file().path()) > step) return;
    (out += line) += '\n';
  });
}

}  // namespace mezzo::train
