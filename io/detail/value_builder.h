// Events of JSON put together to a `Value`. Not for use outside of io.
#pragma once

#include <string>
#include <vector>

#include "mezzo/io/detail/json_scanner.h"

namespace mezzo::io::detail {

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
