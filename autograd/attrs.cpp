// Conversions between JSON values and the types of attribute fields, and the errors for unknown names and
// wrong values. The templates of attrs.h call them.
#include "mezzo/autograd/attrs.h"

namespace mezzo::detail {

IntList ints_from(const Value& value) {
  IntList result;
  if (value.is_null()) return result;
  if (value.is_int()) {
    result.push_back(value.as_int());
    return result;
  }
  if (!value.is_list())
    throw ValueError("ints", "an integer or a list of them", value.to_string(), "pass [1, 2]");
  for (const Value& element : value.as_list()) result.push_back(element.as_int());
  return result;
}

Dims dims_from(const Value& value) { return Dims(std::span<const std::int64_t>(ints_from(value))); }

Scalar scalar_from(const Value& value) {
  if (value.is_bool()) return Scalar(value.as_bool());
  if (value.is_int()) return Scalar(value.as_int());
  if (value.is_double() || value.is_string()) return Scalar(value.as_double());
  throw ValueError("number", "a number", value.to_string(), "pass 1, 0.5, true or \"inf\"");
}

std::size_t name_from(const Value& value, std::span<const std::string_view> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == value.as_string()) return i;
  }
  throw ValueError("name", "one of " + joined(names, ", "), "\"" + value.as_string() + "\"",
                   "use one of these names");
}

Value to_value(const Scalar& scalar) {
  if (scalar.kind() == DTypeKind::boolean) return Value(scalar.integer() != 0);
  if (scalar.kind() == DTypeKind::integer) return Value(scalar.integer());
  return Value(scalar.real());
}

void add_field(Value::Map& map, std::string_view name, Value value) {
  map.emplace_back(std::string(name), std::move(value));
}

void refuse_attr(std::string_view op, std::string_view name, std::string_view known) {
  throw ValueError(op,
                   known.empty() ? std::string("no attributes") : "attributes out of " + std::string(known),
                   "\"" + std::string(name) + "\"", "check the spelling");
}

void refuse_value(std::string_view op, std::string_view field, const Error& error) {
  throw ValueError(std::string(op) + "." + std::string(field), error.expected(), error.got(), error.fix());
}

std::string joined(std::span<const std::string_view> names, std::string_view separator) {
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "" : separator).append(name);
  return text;
}

}  // namespace mezzo::detail
