// Where each value goes: into the innermost list or map that is open.
#include "mezzo/io/detail/value_builder.h"

#include <utility>

namespace mezzo::io::detail {

std::size_t ValueBuilder::size() const noexcept {
  if (open_.empty()) return 0;
  return open_.back().is_map ? open_.back().map.size() : open_.back().list.size();
}

void ValueBuilder::key(std::string&& text) { open_.back().map.emplace_back(std::move(text), nullptr); }

void ValueBuilder::end_map() {
  Value::Map map = std::move(open_.back().map);
  open_.pop_back();
  if (const std::string* twice = Value::duplicate_key(map)) {
    scanner_.fail("distinct keys", "the key " + quote(*twice) + " twice in the map ending", "remove one");
  }
  place(Value(std::move(map)));
}

void ValueBuilder::end_list() {
  Value::List list = std::move(open_.back().list);
  open_.pop_back();
  place(Value(std::move(list)));
}

void ValueBuilder::place(Value value) {
  if (open_.empty()) {
    root_ = std::move(value);
  } else if (open_.back().is_map) {
    open_.back().map.back().second = std::move(value);
  } else {
    open_.back().list.push_back(std::move(value));
  }
}

}  // namespace mezzo::io::detail
