// JSON text, read block by block and value by value: what a caller keeps of it is all the memory it takes.
// Checks of what values mean are elsewhere (safetensors_header.cpp).
// Not for use outside of io.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/core/value.h"
#include "mezzo/io/json_limits.h"

namespace mezzo::io::detail {

/// Text in blocks, of which one at a time is in memory: gives what follows behind so many bytes, valid until
/// the next call; nothing at the end.
using JsonBlocks = mezzo::detail::Function<std::string_view(std::size_t at)>;

/// A strict reader of RFC 8259: UTF-8, one value, nothing behind it. A byte order mark before it is passed
/// over. A part of the text that is too long for its purpose is not refused here: it takes up to three times
/// its length while it is read. Throws IoError with line, column and byte for malformed text and for what
/// exceeds the limits.
class JsonScanner {
 public:
  JsonScanner(std::string op, JsonBlocks blocks, const JsonLimits& limits);

  /// All of the text as one value.
  Value read();
  /// All of the text as one map: entry(key) for each, which reads the value behind the key by one of the
  /// calls below. Nobody has looked whether a key comes twice.
  template <class F>
  void read_map(const F& entry) {
    skip_mark();
    map(entry);
    expect_end();
  }
  /// The first character of the value that comes next.
  [[nodiscard]] char next();
  /// The value that comes next.
  [[nodiscard]] Value value() {
    return value([](std::size_t /*size*/) {});
  }
  /// A map or a list asks room(size) before it becomes larger than that; so do those within it.
  template <class F>
  [[nodiscard]] Value value(const F& room);
  /// The map that comes next, as read_map.
  template <class F>
  void map(const F& entry) {
    elements('}', "',' or '}'", [&] { entry(read_key()); });
  }
  /// A map that was read just now. Throws: IoError for a key that comes twice.
  [[nodiscard]] Value checked(Value::Map&& map) const;
  /// "line 2, column 7 (byte 31)", each counted from 1: the last byte that was read, or the one behind the
  /// end.
  [[nodiscard]] std::string position() const;
  /// Throws IoError: `got` at the position.
  [[noreturn]] void fail(std::string_view expected, const std::string& got, std::string_view fix) const;

 private:
  static constexpr int kEnd = -1;

  [[nodiscard]] int peek();
  int take();
  void refill();
  [[noreturn]] void fail_syntax(const std::string& what) const;
  [[noreturn]] void fail_at(int byte, std::string_view wanted);

  void skip_mark();
  int peek_past_space();
  void count_value();
  void open();
  void expect_end();
  /// A map or a list to its end: element() for each of its elements. `wanted`: what may follow one.
  template <class F>
  void elements(char end, std::string_view wanted, const F& element);
  [[nodiscard]] std::string read_key();
  [[nodiscard]] Value read_scalar();
  void read_word(std::string_view word);
  void read_string();
  void read_escape();
  [[nodiscard]] unsigned read_hex();
  void read_digits(std::string_view where);
  [[nodiscard]] Value read_number();
  [[nodiscard]] Value number_value(bool is_integer) const;

  std::string op_;
  JsonBlocks blocks_;
  JsonLimits limits_;
  std::string_view block_;
  std::size_t at_ = 0;  ///< in block_
  std::size_t bytes_ = 0, line_ = 1, line_begin_ = 0;
  bool line_ended_ = false, text_ended_ = false;
  std::size_t values_ = 0, depth_ = 0;
  std::string token_;  ///< of a string or number
};

template <class F>
void JsonScanner::elements(char end, std::string_view wanted, const F& element) {
  open();
  if (peek_past_space() != end) {
    for (;;) {
      element();
      const int byte = peek_past_space();
      if (byte == end) break;
      if (byte != ',') fail_at(byte, wanted);
      static_cast<void>(take());
    }
  }
  static_cast<void>(take());
  --depth_;
}

template <class F>
Value JsonScanner::value(const F& room) {
  const char first = next();
  if (first == '{') {
    Value::Map result;
    map([&](std::string&& key) {
      room(result.size());
      result.emplace_back(std::move(key), nullptr);
      result.back().second = value(room);
    });
    return checked(std::move(result));
  }
  if (first != '[') return read_scalar();
  Value::List result;
  elements(']', "',' or ']'", [&] {
    room(result.size());
    result.push_back(value(room));
  });
  return result;
}

}  // namespace mezzo::io::detail
