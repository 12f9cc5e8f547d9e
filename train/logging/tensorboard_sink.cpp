// Event files: TFRecord frames around Event messages. Field numbers are those of event.proto, summary.proto
// and tensor.proto of TensorFlow.
#include "mezzo/train/tensorboard_sink.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/crc32.h"
#include "mezzo/io/detail/proto_message.h"
#include "mezzo/train/logging/histogram.h"
#include "mezzo/train/logging/log_file.h"
#include "mezzo/train/logging/text_form.h"

namespace mezzo::train {

namespace {

using io::detail::append_little_endian;
using io::detail::ProtoMessage;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A record: its length and data, each with a checksum.
std::string framed(const ProtoMessage& message) {
  const auto crc = [](std::string_view bytes) {
    return io::detail::masked_crc32c(std::as_bytes(std::span(bytes)));
  };
  const std::string& data = message.text();
  std::string record;
  append_little_endian(record, data.size(), 8);
  append_little_endian(record, crc(record), 4);
  record += data;
  append_little_endian(record, crc(data), 4);
  return record;
}

ProtoMessage event_of(double time, std::int64_t step) {
  ProtoMessage event;
  event.real(1, time);
  if (step != 0) event.integer(2, step);
  return event;
}

/// The record of a summary of one value.
std::string summary_event(double time, std::int64_t step, const ProtoMessage& value) {
  return framed(event_of(time, step).message(5, ProtoMessage().message(1, value)));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  std::string text(name.data());
  for (char& c : text) c = c == '/' ? '_' : c;
  return text;
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// The path of a new, empty event file in the folder.
std::string new_event_file(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw IoError("write '" + folder + "'", "a folder that can be made", error.message(),
                  "choose another path, or check permissions");
  }
  const std::string start = (std::filesystem::path(folder) / "events.out.tfevents.").string() +
                            std::to_string(static_cast<std::int64_t>(wall_seconds())) + "." + host_name() +
                            "." + std::to_string(::getpid()) + ".";
  constexpr int kMostFiles = 10'000;
  for (int number = 0; number < kMostFiles; ++number) {
    std::string path = start + std::to_string(number);
    // x: two sinks that are made in one second never share a file.
    if (std::unique_ptr<std::FILE, FileCloser>(std::fopen(path.c_str(), "wxe")) != nullptr) return path;
    if (errno != EEXIST) break;
  }
  throw IoError("write '" + start + "0'", "a folder that can be written",
                std::generic_category().message(errno), "choose another path, or check permissions");
}

/// Cells of Markdown: one line, no bars of its own.
std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|' || c == '\\') cell += '\\';
    cell += c == '\n' ? ' ' : c;
  }
  return cell;
}

std::string markdown_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + markdown_cell(cell) + " |";
  return line + "\n";
}

std::string markdown_of(const Value& value) {
  const std::optional<detail::TextForm> table = detail::table_of(value);
  if (!table) {
    return value.is_string() ? value.as_string() : "```\n" + value.to_string(2) + "\n```";
  }
  const std::vector<std::string> titles =
      table->titles.empty() ? std::vector<std::string>{"name", "value"} : table->titles;
  std::string text = markdown_line(titles) + "|";
  for (std::size_t i = 0; i < titles.size(); ++i) text += " --- |";
  text += "\n";
  for (const std::vector<std::string>& row : table->rows) text += markdown_line(row);
  return text;
}

}  // namespace

TensorBoardSink::TensorBoardSink(const std::string& folder, TensorBoardSinkOptions options)
    : FileSink(new_event_file(folder), options.every) {
  file().append(framed(event_of(wall_seconds(), 0).bytes(3, "brain.Event:2")));
}

void TensorBoardSink::write(const LogRecord& record) {
  if (record.values.empty()) return;
  ProtoMessage summary;
  for (const LogScalar& scalar : record.values) {
    ProtoMessage value;
    value.bytes(1, scalar.name).real32(2, static_cast<float>(scalar.value));
    summary.message(1, value);
  }
  file().append(framed(event_of(record.time, record.step).message(5, summary)));
}

void TensorBoardSink::write_text(const LogText& text) {
  constexpr std::int64_t kString = 7;  // DT_STRING
  const ProtoMessage plugin = ProtoMessage().bytes(1, "text");
  const ProtoMessage shape = ProtoMessage().message(2, ProtoMessage().integer(1, 1));
  const ProtoMessage tensor =
      ProtoMessage().integer(1, kString).message(2, shape).bytes(8, markdown_of(text.value));
  const ProtoMessage value = ProtoMessage()
                                 .bytes(1, std::string(text.name) + "/text_summary")
                                 .message(8, tensor)
                                 .message(9, ProtoMessage().message(1, plugin));
  file().append(summary_event(text.time, text.step, value));
}

void TensorBoardSink::write_histogram(const LogHistogram& histogram) {
  const detail::Histogram counted = detail::histogram_of(histogram.values);
  if (const auto bad = static_cast<std::int64_t>(histogram.values.size()) - counted.count; bad > 0) {
    const std::string name = std::string(histogram.name) + "/nonfinite";
    const LogScalar number{name, static_cast<double>(bad)};
    write({histogram.step, histogram.time, std::span(&number, 1)});
  }
  if (counted.count == 0) return;
  const ProtoMessage proto = ProtoMessage()
                                 .real(1, counted.min)
                                 .real(2, counted.max)
                                 .real(3, static_cast<double>(counted.count))
                                 .real(4, counted.sum)
                                 .real(5, counted.sum_squares)
                                 .reals(6, counted.limits)
                                 .reals(7, counted.counts);
  const ProtoMessage value = ProtoMessage().bytes(1, histogram.name).message(5, proto);
  file().append(summary_event(histogram.time, histogram.step, value));
}

void TensorBoardSink::write_image(const LogImage& image) {
  const ProtoMessage proto = ProtoMessage()
                                 .integer(1, image.height)
                                 .integer(2, image.width)
                                 .integer(3, image.channels)
                                 .bytes(4, image.png);
  const ProtoMessage value = ProtoMessage().bytes(1, image.name).message(4, proto);
  file().append(summary_event(image.time, image.step, value));
}

void TensorBoardSink::resume(std::int64_t step) {
  constexpr std::int64_t kStart = 1;
  const std::int64_t next = step == INT64_MAX ? step : step + 1;
  file().append(framed(event_of(wall_seconds(), next).message(7, ProtoMessage().integer(1, kStart))));
}

const std::string& TensorBoardSink::path() const noexcept { return file().path(); }

}  // namespace mezzo::train
