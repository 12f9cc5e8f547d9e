// Access, change and comparison of `Value`; how it is written as text is in value_text.cpp.
#include "mezzo/core/value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "mezzo/core/error.h"

namespace mezzo {

namespace {

[[noreturn]] void refuse_count(std::string_view op, std::string_view name, const std::string& got) {
  throw ValueError(op, std::string(name) + " from 0 to 2^53", got, "check the file");
}

/// Maps with up to this many entries are checked for duplicates without allocating.
constexpr std::size_t kSmallMap = 16;

bool same_double(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool same_map(const Value::Map& a, const Value& b_value) {
  const Value::Map& b = b_value.as_map();
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Nearly always the order is the same too, and then no search is needed.
    const Value* other = a[i].first == b[i].first ? &b[i].second : b_value.find(a[i].first);
    if (other == nullptr || !(a[i].second == *other)) return false;
  }
  return true;
}

std::string key_list(const Value::Map& map) {
  if (map.empty()) return "a map with no keys";
  return "a map with the keys " + detail::listed(map, 12, [](const auto& e) { return quote(e.first, 40); });
}

}  // namespace

Value::Value(const char* value) : Value(std::string(value)) {}
Value::Value(std::string_view value) : Value(std::string(value)) {}
Value::Value(std::string value) noexcept : string_(std::move(value)), kind_(Kind::string) {}
Value::Value(List value) noexcept : list_(std::move(value)), kind_(Kind::list) {}

Value::Value(Map value) : Value() {
  if (const std::string* key = duplicate_key(value)) {
    throw ValueError("Value", "distinct keys", "the key " + quote(*key) + " twice", "remove one");
  }
  std::construct_at(&map_, std::move(value));
  kind_ = Kind::map;
}

template <class Other>
void Value::hold(Other&& other) {
  switch (other.kind_) {
    case Kind::null:
      break;
    case Kind::boolean:
      boolean_ = other.boolean_;
      break;
    case Kind::integer:
      integer_ = other.integer_;
      break;
    case Kind::real:
      real_ = other.real_;
      break;
    case Kind::string:
      std::construct_at(&string_, std::forward<Other>(other).string_);
      break;
    case Kind::list:
      std::construct_at(&list_, std::forward<Other>(other).list_);
      break;
    case Kind::map:
      std::construct_at(&map_, std::forward<Other>(other).map_);
      break;
  }
  kind_ = other.kind_;  // last: a copy that throws leaves null, which has nothing to destroy
}

Value::Value(const Value& other) : Value() { hold(other); }
Value::Value(Value&& other) noexcept : Value() { hold(std::move(other)); }
Value& Value::operator=(const Value& other) { return *this = Value(other); }

Value& Value::operator=(Value&& other) noexcept {
  Value held(std::move(other));  // first: `other` may live inside of what this holds
  destroy();
  std::construct_at(this, std::move(held));
  return *this;
}

Value::~Value() { destroy(); }

void Value::destroy() noexcept {
  if (kind_ == Kind::string) std::destroy_at(&string_);
  if (kind_ == Kind::list) std::destroy_at(&list_);
  if (kind_ == Kind::map) std::destroy_at(&map_);
}

const std::string* Value::duplicate_key(const Map& map) {
  if (map.size() <= kSmallMap) {
    const std::string* first = nullptr;
    for (std::size_t i = 0; i < map.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (map[i].first == map[j].first && (first == nullptr || map[i].first < *first))
          first = &map[i].first;
      }
    }
    return first;
  }
  std::vector<const std::string*> keys;
  keys.reserve(map.size());
  for (const auto& entry : map) keys.push_back(&entry.first);
  std::sort(keys.begin(), keys.end(), [](const std::string* a, const std::string* b) { return *a < *b; });
  const auto twin = std::adjacent_find(keys.begin(), keys.end(),
                                       [](const std::string* a, const std::string* b) { return *a == *b; });
  return twin == keys.end() ? nullptr : *twin;
}

bool Value::as_bool() const {
  if (is_bool()) return boolean_;
  refuse("Value::as_bool", "a bool");
}

std::int64_t Value::as_int() const {
  if (is_int()) return integer_;
  refuse("Value::as_int", "an int");
}

double Value::as_double() const {
  if (is_double()) return real_;
  if (is_int()) return static_cast<double>(integer_);
  if (is_string()) {
    if (string_ == "inf") return std::numeric_limits<double>::infinity();
    if (string_ == "-inf") return -std::numeric_limits<double>::infinity();
    if (string_ == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  refuse("Value::as_double", "a number or one of the strings \"inf\", \"-inf\", \"nan\"");
}

const std::string& Value::as_string() const& {
  if (is_string()) return string_;
  refuse("Value::as_string", "a string");
}

const Value::List& Value::as_list() const& {
  if (is_list()) return list_;
  refuse("Value::as_list", "a list");
}

const Value::Map& Value::as_map() const& {
  if (is_map()) return map_;
  refuse("Value::as_map", "a map");
}

std::size_t Value::size() const {
  if (is_list()) return list_.size();
  if (is_map()) return map_.size();
  refuse("Value::size", "a list or a map");
}

const Value* Value::find(std::string_view key) const& {
  if (!is_map()) refuse("Value::find", "a map");
  const auto entry =
      std::find_if(map_.begin(), map_.end(), [key](const auto& item) { return item.first == key; });
  return entry == map_.end() ? nullptr : &entry->second;
}

std::optional<Value> Value::find(std::string_view key) && {
  const Value* const found = find(key);
  return found != nullptr ? std::optional(moved(*found)) : std::nullopt;
}

const Value& Value::at(std::string_view key) const& {
  if (const Value* value = find(key)) return *value;
  throw ValueError("Value::at", "the key " + quote(key), key_list(as_map()), "check the spelling");
}

const Value& Value::at(std::size_t index) const& {
  const List& list = as_list();
  if (index < list.size()) return list[index];
  throw IndexError("Value::at", "an index below " + std::to_string(list.size()), std::to_string(index),
                   "check size() first");
}

Value& Value::set(std::string key, Value value) {
  if (is_null()) *this = Map();
  if (!is_map()) refuse("Value::set", "a map or null");
  const auto entry =
      std::find_if(map_.begin(), map_.end(), [&key](const auto& item) { return item.first == key; });
  if (entry != map_.end()) {
    entry->second = std::move(value);
  } else {
    map_.emplace_back(std::move(key), std::move(value));
  }
  return *this;
}

Value& Value::push_back(Value value) {
  if (is_null()) *this = List();
  if (!is_list()) refuse("Value::push_back", "a list or null");
  list_.push_back(std::move(value));
  return *this;
}

bool operator==(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_bool()) return a.as_bool() == b.as_bool();
  if (a.is_int()) return a.as_int() == b.as_int();
  if (a.is_double()) return same_double(a.as_double(), b.as_double());
  if (a.is_string()) return a.as_string() == b.as_string();
  if (a.is_list()) return a.as_list() == b.as_list();
  return a.is_null() || same_map(a.as_map(), b);
}

void Value::refuse_integer(std::uint64_t value) {
  throw ValueError("Value", "an integer of at most 2^63 - 1", std::to_string(value),
                   "store it as a string or, rounded, as a double");
}

void Value::refuse(std::string_view op, std::string_view expected) const {
  std::string got(mezzo::to_string(kind()));
  if (is_list() || is_map())
    got += " of " + std::to_string(size());
  else if (is_string())
    got += " " + quote(as_string());
  else if (!is_null())
    got += " " + to_string();
  throw ValueError(op, expected, got, "check where the value was made");
}

std::int64_t saved_count(std::string_view op, const Value& state, std::string_view key) {
  const std::int64_t count = state.at(key).as_int();
  if (count < 0 || count > kLargestCount) refuse_count(op, key, std::to_string(count));
  return count;
}

void require_saved_count(std::string_view op, std::string_view name, double count) {
  if (!(count >= 0 && count <= static_cast<double>(kLargestCount) && std::floor(count) == count))
    refuse_count(op, "a whole " + std::string(name), number_text(count));
}

}  // namespace mezzo
