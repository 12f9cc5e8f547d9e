// The only file that sees nlohmann_json, of which it uses the event parser: events build a `Value` at once,
// so there is no second tree, and depth, size and duplicate keys are checked while the text is read.
#include "mezzo/io/json.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/io/file.h"

namespace mezzo::io {

namespace {

using nlohmann::json;

constexpr std::string_view kOp = "parse_json";

/// Walks over the text and keeps outside of itself how far the parser has read, which its events do not tell.
class TrackingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, std::size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const TrackingIterator& a, const TrackingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  std::size_t* count_;
};

/// "line 2, column 7 (byte 31)" for the byte number `byte`, counted from 1.
std::string position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(text.size(), byte > 0 ? byte - 1 : 0));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_end = before.rfind('\n');
  const std::size_t column = before.size() - (line_end == std::string_view::npos ? 0 : line_end + 1) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + " (byte " +
         std::to_string(byte) + ")";
}

/// What the parser says, without its prefix and its own position, and never longer than a line or two.
std::string complaint(std::string_view what) {
  for (const std::string_view marker : {"syntax error", "number overflow"}) {
    if (const std::size_t at = what.find(marker); at != std::string_view::npos) {
      what.remove_prefix(at);
      break;
    }
  }
  const std::string escaped = quote(what, 200);
  // Its quotes are not wanted, only that nothing unprintable is left.
  return escaped.substr(1, escaped.rfind('"') - 1) + (escaped.back() == '"' ? "" : "...");
}

/// Receives the parser's events and puts the value together.
class Builder {
 public:
  Builder(std::string_view text, const std::size_t& read, const JsonLimits& limits)
      : text_(text), read_(read), limits_(limits) {}

  Value take() { return std::move(root_); }

  bool null() { return add(Value()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(json::number_integer_t value) { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) {
    return std::in_range<std::int64_t>(value) ? add(static_cast<std::int64_t>(value))
                                              : add(static_cast<double>(value));
  }
  bool number_float(json::number_float_t value, const std::string& /*text*/) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(json::binary_t& /*value*/) { return false; }  // other formats only

  bool start_object(std::size_t /*size*/) { return open(Frame{.is_map = true, .map = {}, .list = {}}); }
  bool start_array(std::size_t /*size*/) { return open(Frame{.is_map = false, .map = {}, .list = {}}); }

  bool key(std::string& value) {
    open_.back().map.emplace_back(std::move(value), nullptr);
    return true;
  }

  bool end_object() {
    Value::Map map = std::move(open_.back().map);
    open_.pop_back();
    if (const std::string* twice = Value::duplicate_key(map)) {
      fail("distinct keys", "the key " + quote(*twice) + " twice in the map ending", "remove one");
    }
    place(Value(std::move(map)));
    return true;
  }

  bool end_array() {
    Value::List list = std::move(open_.back().list);
    open_.pop_back();
    place(Value(std::move(list)));
    return true;
  }

  bool parse_error(std::size_t byte, const std::string& /*token*/, const json::exception& error) {
    throw IoError(kOp, "JSON", complaint(error.what()) + " at " + position(text_, byte),
                  "correct the text there");
  }

 private:
  /// A list or map not yet closed. A map's last entry waits for its value once its key has been seen.
  struct Frame {
    bool is_map;
    Value::Map map;
    Value::List list;
  };

  [[noreturn]] void fail(std::string_view expected, const std::string& got, std::string_view fix) const {
    throw IoError(kOp, expected, got + " at " + position(text_, read_), fix);
  }

  void count() {
    if (++values_ > limits_.max_values) {
      fail("at most " + std::to_string(limits_.max_values) + " values", "another", "split the file");
    }
  }

  bool open(Frame frame) {
    count();
    if (open_.size() >= limits_.max_depth) {
      fail("at most " + std::to_string(limits_.max_depth) + " levels of lists and maps", "another",
           "nest less");
    }
    open_.push_back(std::move(frame));
    return true;
  }

  bool add(Value value) {
    count();
    place(std::move(value));
    return true;
  }

  void place(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_map) {
      open_.back().map.back().second = std::move(value);
    } else {
      open_.back().list.push_back(std::move(value));
    }
  }

  std::string_view text_;
  const std::size_t& read_;
  JsonLimits limits_;
  std::vector<Frame> open_;
  std::size_t values_ = 0;
  Value root_;
};

}  // namespace

Value parse_json(std::string_view text, const JsonLimits& limits) {
  // The parser takes a zero byte for the end of the text and would pass over what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw IoError(kOp, "JSON", "a zero byte at " + position(text, zero + 1), "remove it");
  }
  std::size_t read = 0;
  Builder builder(text, read, limits);
  json::sax_parse(TrackingIterator(text.data(), &read), TrackingIterator(text.data() + text.size(), &read),
                  &builder);
  return builder.take();
}

Value read_json_file(const std::string& path, const JsonLimits& limits) {
  const std::vector<std::byte> bytes = read_file(path);
  try {
    return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, limits);
  } catch (const IoError& error) {
    throw IoError("read_json_file '" + path + "'", error.expected(), error.got(), error.fix());
  }
}

std::string dump_json(const Value& value, int indent) { return value.to_string(indent); }

void write_json_file(const std::string& path, const Value& value) {
  AtomicFile file(path);
  file.write(value.to_string(2) + "\n");
  file.commit();
}

}  // namespace mezzo::io
