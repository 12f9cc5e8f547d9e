// JSON text as events, while it is read block by block: what a caller keeps of it is all the memory it takes.
// Checks of what they mean are made of the events elsewhere (safetensors_header.cpp).
// Not for use outside of io.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/value.h"
#include "mezzo/io/json_limits.h"

namespace mezzo::io::detail {

/// Text in blocks, of which one at a time is in memory.
class JsonText {
 public:
  virtual ~JsonText() = default;
  /// The text that follows, valid until the next call; empty at the end.
  [[nodiscard]] virtual std::string_view next_block() = 0;
  /// To its begin, to read it again.
  virtual void rewind() = 0;
  /// Bytes in all.
  [[nodiscard]] virtual std::size_t size() const = 0;
};

/// Text that is in memory as a whole.
class JsonTextInMemory final : public JsonText {
 public:
  explicit JsonTextInMemory(std::string_view text) : text_(text), rest_(text) {}
  [[nodiscard]] std::string_view next_block() override { return std::exchange(rest_, {}); }
  void rewind() override { rest_ = text_; }
  [[nodiscard]] std::size_t size() const override { return text_.size(); }

 private:
  std::string_view text_, rest_;
};

/// The receiver of the text's parts, in their order. Strings may be moved from. An event may throw, which
/// ends the scan.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  /// Null, a bool or a number.
  virtual void scalar(Value&& value) = 0;
  virtual void string(std::string&& text) = 0;
  virtual void begin_map() = 0;
  /// The key of the value that follows. Nobody has looked whether the map has it already.
  virtual void key(std::string&& text) = 0;
  virtual void end_map() = 0;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
};

/// A strict reader of RFC 8259: UTF-8, one value, nothing behind it. A byte order mark before it is passed
/// over. A part of the text that is too long for its purpose is not refused here: it takes up to three times
/// its length while it is read. Throws IoError with line, column and byte for malformed text and for what
/// exceeds the limits.
class JsonScanner {
 public:
  JsonScanner(std::string op, JsonText& text, const JsonLimits& limits);

  void run(JsonEvents& events);
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
  void open(char bracket);
  bool begin_value(JsonEvents& events);
  bool finish_value(JsonEvents& events);
  void close(JsonEvents& events);
  void read_key(JsonEvents& events);
  void read_word(std::string_view word);
  void read_string();
  void read_escape();
  [[nodiscard]] unsigned read_hex();
  void read_digits(std::string_view where);
  void read_number(JsonEvents& events);
  [[nodiscard]] Value number_value(bool is_integer) const;

  std::string op_;
  JsonText& text_;
  JsonLimits limits_;
  std::string_view block_;
  std::size_t at_ = 0;  ///< in block_
  std::size_t bytes_ = 0, line_ = 1, line_begin_ = 0;
  bool line_ended_ = false, text_ended_ = false;
  std::size_t values_ = 0;
  std::string open_;   ///< the brackets that are not closed
  std::string token_;  ///< of a string or number
};

/// Events put together to a `Value`.
class ValueBuilder final : public JsonEvents {
 public:
  /// Says where in the text a key is twice.
  explicit ValueBuilder(const JsonScanner& scanner) : scanner_(scanner) {}

  /// Whether no list or map is open.
  [[nodiscard]] bool is_complete() const noexcept { return open_.empty(); }
  /// Lists and maps that are open.
  [[nodiscard]] std::size_t depth() const noexcept { return open_.size(); }
  /// Elements of the innermost of them so far.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] Value take() { return std::move(root_); }

  void scalar(Value&& value) override { place(std::move(value)); }
  void string(std::string&& text) override { place(Value(std::move(text))); }
  void begin_map() override { open_.push_back({.is_map = true, .map = {}, .list = {}}); }
  void key(std::string&& text) override;
  void end_map() override;
  void begin_list() override { open_.push_back({.is_map = false, .map = {}, .list = {}}); }
  void end_list() override;

 private:
  /// A list or map not yet closed. A map's last entry waits for its value once its key has been seen.
  struct Frame {
    bool is_map;
    Value::Map map;
    Value::List list;
  };

  void place(Value value);

  const JsonScanner& scanner_;
  std::vector<Frame> open_;
  Value root_;
};

}  // namespace mezzo::io::detail
