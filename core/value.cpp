// Access, change and comparison of `Value`; how it is written as text is in value_text.cpp.
#include "mezzo/core/value.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mezzo/core/error.h"

namespace mezzo {

namespace {

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
  constexpr std::size_t kShown = 12;
  std::string text = "a map with ";
  text += map.empty() ? "no keys" : "the keys ";
  for (std::size_t i = 0; i < std::min(map.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + quote(map[i].first, 40);
  if (map.size() > kShown) text += " and " + std::to_string(map.size() - kShown) + " more";
  return text;
}

}  // namespace

Value::Value(Map value) : data_(std::move(value)) {
  if (const std::string* key = duplicate_key(std::get<Map>(data_))) {
    throw ValueError("Value", "distinct keys", "the key " + quote(*key) + " twice", "remove one");
  }
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
  if (const bool* value = std::get_if<bool>(&data_)) return *value;
  refuse("Value::as_bool", "a bool");
}

std::int64_t Value::as_int() const {
  if (const std::int64_t* value = std::get_if<std::int64_t>(&data_)) return *value;
  refuse("Value::as_int", "an int");
}

double Value::as_double() const {
  if (const double* value = std::get_if<double>(&data_)) return *value;
  if (const std::int64_t* value = std::get_if<std::int64_t>(&data_)) return static_cast<double>(*value);
  if (const std::string* value = std::get_if<std::string>(&data_)) {
    if (*value == "inf") return std::numeric_limits<double>::infinity();
    if (*value == "-inf") return -std::numeric_limits<double>::infinity();
    if (*value == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  refuse("Value::as_double", "a number or one of the strings \"inf\", \"-inf\", \"nan\"");
}

const std::string& Value::as_string() const {
  if (const std::string* value = std::get_if<std::string>(&data_)) return *value;
  refuse("Value::as_string", "a string");
}

const Value::List& Value::as_list() const {
  if (const List* value = std::get_if<List>(&data_)) return *value;
  refuse("Value::as_list", "a list");
}

const Value::Map& Value::as_map() const {
  if (const Map* value = std::get_if<Map>(&data_)) return *value;
  refuse("Value::as_map", "a map");
}

std::size_t Value::size() const {
  if (const List* list = std::get_if<List>(&data_)) return list->size();
  if (const Map* map = std::get_if<Map>(&data_)) return map->size();
  refuse("Value::size", "a list or a map");
}

const Value* Value::find(std::string_view key) const {
  const Map* map = std::get_if<Map>(&data_);
  if (map == nullptr) refuse("Value::find", "a map");
  const auto entry =
      std::find_if(map->begin(), map->end(), [key](const auto& item) { return item.first == key; });
  return entry == map->end() ? nullptr : &entry->second;
}

const Value& Value::at(std::string_view key) const {
  if (const Value* value = find(key)) return *value;
  throw ValueError("Value::at", "the key " + quote(key), key_list(as_map()), "check the spelling");
}

const Value& Value::at(std::size_t index) const {
  const List& list = as_list();
  if (index < list.size()) return list[index];
  throw IndexError("Value::at", "an index below " + std::to_string(list.size()), std::to_string(index),
                   "check size() first");
}

Value& Value::set(std::string key, Value value) {
  if (is_null()) data_ = Map();
  Map* map = std::get_if<Map>(&data_);
  if (map == nullptr) refuse("Value::set", "a map or null");
  const auto entry =
      std::find_if(map->begin(), map->end(), [&key](const auto& item) { return item.first == key; });
  if (entry != map->end()) {
    entry->second = std::move(value);
  } else {
    map->emplace_back(std::move(key), std::move(value));
  }
  return *this;
}

Value& Value::push_back(Value value) {
  if (is_null()) data_ = List();
  List* list = std::get_if<List>(&data_);
  if (list == nullptr) refuse("Value::push_back", "a list or null");
  list->push_back(std::move(value));
  return *this;
}

bool operator==(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::null:
      return true;
    case Value::Kind::boolean:
      return a.as_bool() == b.as_bool();
    case Value::Kind::integer:
      return a.as_int() == b.as_int();
    case Value::Kind::real:
      return same_double(a.as_double(), b.as_double());
    case Value::Kind::string:
      return a.as_string() == b.as_string();
    case Value::Kind::list:
      return a.as_list() == b.as_list();
    case Value::Kind::map:
      break;
  }
  return same_map(a.as_map(), b);
}

void Value::refuse_integer(std::uint64_t value) {
  throw ValueError("Value", "an integer of at most 2^63 - 1", std::to_string(value),
                   "store it as a string or, rounded, as a double");
}

void Value::refuse(std::string_view op, std::string_view expected) const {
  std::string got(mezzo::to_string(kind()));
  switch (kind()) {
    case Kind::null:
      break;
    case Kind::list:
    case Kind::map:
      got += " of " + std::to_string(size());
      break;
    case Kind::string:
      got += " " + quote(as_string());
      break;
    default:
      got += " " + to_string();
      break;
  }
  throw ValueError(op, expected, got, "check where the value was made");
}

}  // namespace mezzo
