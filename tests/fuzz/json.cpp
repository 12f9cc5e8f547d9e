// JSON text: accepted as nlohmann_json accepts it, but for what the limits and the rule on keys refuse; with
// the same values; and equal when it is written and read again.
#include <nlohmann/json.hpp>

#include "mezzo/core/error.h"
#include "mezzo/io/json.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

using nlohmann::json;

bool is_number(const Value& ours, const json& theirs) {
  if (theirs.is_number_integer() && ours.is_int()) return ours.as_int() == theirs.get<std::int64_t>();
  // Beyond 63 bits ours is a double. Theirs may be a -0 of integers, ours not.
  return ours.is_double() && ours.as_double() == theirs.get<double>();
}

bool same_json(const Value& ours, const json& theirs) {
  switch (theirs.type()) {
    case json::value_t::null:
      return ours.is_null();
    case json::value_t::boolean:
      return ours.is_bool() && ours.as_bool() == theirs.get<bool>();
    case json::value_t::string:
      return ours.is_string() && ours.as_string() == theirs.get_ref<const std::string&>();
    case json::value_t::array: {
      if (!ours.is_list() || ours.size() != theirs.size()) return false;
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        if (!same_json(ours.at(i), theirs[i])) return false;
      }
      return true;
    }
    case json::value_t::object: {
      if (!ours.is_map() || ours.size() != theirs.size()) return false;
      for (const auto& [key, value] : theirs.items()) {
        if (!ours.contains(key) || !same_json(ours.at(key), value)) return false;
      }
      return true;
    }
    default:
      return is_number(ours, theirs);
  }
}

}  // namespace

int fuzz_json(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Value value = io::parse_json(text, {.max_values = 100'000});
    const json theirs = json::parse(text, nullptr, false);
    require(!theirs.is_discarded(), "text that is accepted is JSON");
    require(same_json(value, theirs), "the value is what nlohmann_json reads");
    require(io::parse_json(io::dump_json(value)) == value, "what is written reads back equal");
    require(io::parse_json(io::dump_json(value, 2)) == value, "what is written indented reads back equal");
  } catch (const IoError& error) {
    const bool is_grammar = error.got().find("syntax error") != std::string::npos;
    if (is_grammar) require(!json::accept(text), "text that is refused as no JSON is none: " + error.got());
    require(std::string(error.what()).size() < 1000, "a message is short");
  }
  return 0;
}

}  // namespace mezzo::fuzz
