// The CSV sink: which value stands in which column, and the header of a file that is read back.
#include "mezzo/train/csv_sink.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/data/detail/csv_scanner.h"
#include "mezzo/train/logging/log_file.h"
#include "mezzo/train/logging/text_form.h"

namespace mezzo::train {

namespace {

constexpr std::string_view kFirstColumns = "step,time";
constexpr std::size_t kMostReadColumns =
    100'000;  // of a file that is read: a column takes more than its text

/// A name as a field: quoted where the format asks for it (RFC 4180).
void append_field(std::string& out, std::string_view name) {
  if (name.find_first_of(",\"") == std::string_view::npos) {
    out += name;
    return;
  }
  out += '"';
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

[[noreturn]] void refuse_line(const std::string& path, std::uint64_t number, const std::string& expected,
                              std::string_view line) {
  throw IoError("read '" + path + "'", expected + " in line " + std::to_string(number), quote(line),
                "give the path of a CSVSink's file, or move this one away");
}

/// The columns behind step and time.
std::vector<std::string> value_columns_of(std::string_view line, const std::string& path) {
  const auto refuse = [&] { refuse_line(path, 1, "\"step,time\" and names of values", line); };
  if (!line.starts_with(kFirstColumns)) refuse();
  std::vector<std::string> columns;
  try {
    data::detail::CsvScanner fields("", line.substr(kFirstColumns.size()), ',', '"');
    // Before the first comma nothing is left.
    for (bool is_left = fields.next_row(); is_left && !fields.row_ended();) {
      columns.emplace_back(fields.next_field());
      const bool fits = columns.size() == 1 ? columns[0].empty() : !columns.back().empty();
      if (!fits || columns.size() > kMostReadColumns + 1) refuse();
    }
    if (fields.next_row()) refuse();
  } catch (const IoError&) {
    refuse();
  }
  if (!columns.empty()) columns.erase(columns.begin());
  std::vector<std::string> sorted = columns;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) refuse();
  return columns;
}

/// The step of a row of `columns` values.
std::int64_t step_of(std::string_view line, std::size_t columns, std::uint64_t number,
                     const std::string& path) {
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  const auto commas = static_cast<std::size_t>(std::count(line.begin(), line.end(), ','));
  if (error != std::errc() || step < 0 || end == line.data() + line.size() || *end != ',' ||
      commas != columns + 1 || line.find('"') != std::string_view::npos) {
    refuse_line(path, number, "a step and " + std::to_string(columns + 1) + " values", line);
  }
  return step;
}

}  // namespace

CSVSink::CSVSink(std::string path, CSVSinkOptions options) : FileSink(std::move(path), options.every) {}

std::string CSVSink::header() const {
  std::string line(kFirstColumns);
  for (const std::string& column : columns_) {
    line += ',';
    append_field(line, column);
  }
  return line + "\n";
}

void CSVSink::add_columns(const LogRecord& record) {
  const std::size_t before = columns_.size();
  for (const LogScalar& value : record.values) {
    if (std::find(columns_.begin(), columns_.end(), value.name) == columns_.end())
      columns_.emplace_back(value.name);
  }
  if (columns_.size() == before && has_header_) return;
  const std::string padding(columns_.size() - before, ',');
  try {
    file().rewrite([&](std::string_view line, std::uint64_t number, std::string& out) {
      if (number == 1) {
        out += header();
      } else if (line.data() != nullptr) {
        ((out += line) += padding) += '\n';
      }
    });
  } catch (...) {
    columns_.resize(before);
    throw;
  }
  has_header_ = true;
}

void CSVSink::write(const LogRecord& record) {
  if (!file().is_started()) file().start();
  add_columns(record);
  cells_.assign(columns_.size(), nullptr);
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const LogScalar& value = record.values[i];
    // Records mostly have the same names in the same order.
    std::size_t column = i;
    if (i >= columns_.size() || columns_[i] != value.name) {
      const auto found = std::find(columns_.begin(), columns_.end(), value.name);
      column = static_cast<std::size_t>(found - columns_.begin());
    }
    cells_[column] = &value;
  }
  line_ = std::to_string(record.step);
  line_ += ',';
  detail::append_number(line_, record.time, DType::f64);
  for (const LogScalar* const cell : cells_) {
    line_ += ',';
    if (cell != nullptr) detail::append_number(line_, cell->value, cell->dtype);
  }
  line_ += '\n';
  file().append(line_);
}

void CSVSink::resume(std::int64_t step) {
  std::vector<std::string> columns;
  bool has_header = false;
  file().rewrite([&](std::string_view line, std::uint64_t number, std::string& out) {
    if (line.data() == nullptr) return;
    if (number == 1) {
      columns = value_columns_of(line, file().path());
      has_header = true;
    } else if (step_of(line, columns.size(), number, file().path()) > step) {
      return;
    }
    (out += line) += '\n';
  });
  columns_ = std::move(columns);
  has_header_ = has_header;
}

}  // namespace mezzo::train
