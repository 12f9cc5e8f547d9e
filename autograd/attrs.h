// Attributes of ops: plain structs that name their fields once. From that one list come call-by-name with
// values from JSON, printing, and the op table; no op has code of its own for any of them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "mezzo/core/dims.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/error.h"
#include "mezzo/core/scalar.h"
#include "mezzo/core/small_vector.h"
#include "mezzo/core/value.h"

namespace mezzo {

/// A list of integers of any length (sizes of a split); dims and shapes use Dims.
using IntList = SmallVector<std::int64_t, 8>;

/// One field of an attribute struct: the name users and JSON know it by, and where it is.
template <class A, class T>
struct AttrField {
  std::string_view name;
  T A::*member;
};

template <class A, class T>
constexpr AttrField<A, T> attr(std::string_view name, T A::*member) {
  return {name, member};
}

/// In an attribute struct, `MEZZO_FIELDS(AdamOptions, lr, beta1, beta2)`: fields() of up to 27 members, by
/// their own names. It is a template, so that a file which does not call it makes no list.
#define MEZZO_FIELDS(Struct, ...)                                       \
  template <class O = Struct>                                           \
  static constexpr auto fields() {                                      \
    return std::tuple{MEZZO_FIELDS_SCAN(MEZZO_FIELDS_OF(__VA_ARGS__))}; \
  }

// A macro does not expand itself: it leaves its own call for the rest of the members, which the next scan of
// the text expands.
#define MEZZO_FIELDS_OF(member, ...) \
  mezzo::attr(#member, &O::member), __VA_OPT__(MEZZO_FIELDS_REST MEZZO_FIELDS_NONE(__VA_ARGS__))
#define MEZZO_FIELDS_REST() MEZZO_FIELDS_OF
#define MEZZO_FIELDS_NONE ()
#define MEZZO_FIELDS_SCAN(...) MEZZO_FIELDS_SCAN_9(MEZZO_FIELDS_SCAN_9(MEZZO_FIELDS_SCAN_9(__VA_ARGS__)))
#define MEZZO_FIELDS_SCAN_9(...) MEZZO_FIELDS_SCAN_3(MEZZO_FIELDS_SCAN_3(MEZZO_FIELDS_SCAN_3(__VA_ARGS__)))
#define MEZZO_FIELDS_SCAN_3(...) MEZZO_FIELDS_SCAN_1(MEZZO_FIELDS_SCAN_1(MEZZO_FIELDS_SCAN_1(__VA_ARGS__)))
#define MEZZO_FIELDS_SCAN_1(...) __VA_ARGS__

/// For ops without attributes.
struct NoAttrs {
  static constexpr auto fields() { return std::tuple<>{}; }
};

// A field may be a class of an op's own: with `static T from_value(const Value&)`, `Value to_value() const`
// and `static constexpr std::string_view kTypeName`.

/// Names of an enum's values in order; specialise `kEnumNames<E>` next to the enum to use it as an attribute.
template <class E>
inline constexpr std::array<std::string_view, 0> kEnumNames{};

namespace detail {
// Conversions between a field and a Value; each throws an Error for what it cannot take.
[[nodiscard]] Dims dims_from(const Value& value);
[[nodiscard]] IntList ints_from(const Value& value);
[[nodiscard]] Scalar scalar_from(const Value& value);
[[nodiscard]] std::size_t name_from(const Value& value, std::span<const std::string_view> names);
[[nodiscard]] Value to_value(const Scalar& scalar);
void add_field(Value::Map& map, std::string_view name, Value value);
[[noreturn]] void refuse_attr(std::string_view op, std::string_view name, std::string_view known);
/// Throws: ValueError in the name of "op.field", with the texts of `error`.
[[noreturn]] void refuse_value(std::string_view op, std::string_view field, const Error& error);
/// {"a", "b"} -> "a, b" with the separator ", ".
[[nodiscard]] std::string joined(std::span<const std::string_view> names, std::string_view separator);

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
T from_value(const Value& value) {
  if constexpr (IsOptional<T>::value) {
    if (value.is_null()) return std::nullopt;
    return from_value<typename T::value_type>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value.as_bool();
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return value.as_int();
  } else if constexpr (std::is_same_v<T, double>) {
    return value.as_double();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.as_string();
  } else if constexpr (std::is_same_v<T, Scalar>) {
    return scalar_from(value);
  } else if constexpr (std::is_base_of_v<Dims, T>) {
    return T(dims_from(value));
  } else if constexpr (std::is_same_v<T, IntList>) {
    return ints_from(value);
  } else if constexpr (std::is_same_v<T, DType>) {
    return parse_dtype(value.as_string());
  } else if constexpr (requires { T::from_value(value); }) {
    return T::from_value(value);
  } else {
    static_assert(std::is_enum_v<T> && !kEnumNames<T>.empty(), "give the enum its kEnumNames");
    return static_cast<T>(name_from(value, kEnumNames<T>));
  }
}

template <class T>
Value field_to_value(const T& field) {
  if constexpr (IsOptional<T>::value) {
    return field ? field_to_value(*field) : Value();
  } else if constexpr (std::is_same_v<T, Scalar>) {
    return to_value(field);
  } else if constexpr (std::is_base_of_v<Dims, T> || std::is_same_v<T, IntList>) {
    return Value(std::span<const std::int64_t>(field));
  } else if constexpr (std::is_same_v<T, DType>) {
    return Value(info(field).name);
  } else if constexpr (requires { field.to_value(); }) {
    return field.to_value();
  } else if constexpr (std::is_enum_v<T>) {
    return Value(kEnumNames<T>[static_cast<std::size_t>(field)]);
  } else {
    return Value(field);
  }
}
template <class T>
T read_field(std::string_view op, std::string_view field, const Value& value) {
  try {
    return from_value<T>(value);
  } catch (const Error& error) {
    refuse_value(op, field, error);
  }
}

template <class T>
std::string type_name() {
  if constexpr (IsOptional<T>::value) {
    return type_name<typename T::value_type>();
  } else if constexpr (std::is_same_v<T, bool>) {
    return "bool";
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return "int";
  } else if constexpr (std::is_same_v<T, double>) {
    return "float";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "string";
  } else if constexpr (std::is_same_v<T, Scalar>) {
    return "number";
  } else if constexpr (std::is_base_of_v<Dims, T> || std::is_same_v<T, IntList>) {
    return "ints";
  } else if constexpr (std::is_same_v<T, DType>) {
    return "dtype";
  } else if constexpr (requires { T::kTypeName; }) {
    return std::string(T::kTypeName);
  } else {
    return joined(kEnumNames<T>, "/");
  }
}
}  // namespace detail

/// Builds attributes from a map (null means all defaults). A missing field keeps its default; an unknown one
/// or a wrong kind throws ValueError in the name of `op`.
template <class A>
[[nodiscard, gnu::cold]] A attrs_from_value(std::string_view op, const Value& values) {
  A attrs{};
  if (values.is_null()) return attrs;
  for (const auto& entry : values.as_map()) {
    std::apply(
        [&](const auto&... field) {
          [[maybe_unused]] const auto try_field = [&](const auto& one) {
            if (one.name != entry.first) return false;
            using T = std::remove_reference_t<decltype(attrs.*(one.member))>;
            attrs.*(one.member) = detail::read_field<T>(op, entry.first, entry.second);
            return true;
          };
          const std::array<std::string_view, sizeof...(field)> names{field.name...};
          if (!(try_field(field) || ...)) detail::refuse_attr(op, entry.first, detail::joined(names, ", "));
        },
        A::fields());
  }
  return attrs;
}

/// The attributes as a map from field names.
template <class A>
[[nodiscard, gnu::cold]] Value attrs_to_value(const A& attrs) {
  Value::Map map;
  std::apply(
      [&](const auto&... field) {
        (detail::add_field(map, field.name, detail::field_to_value(attrs.*(field.member))), ...);
      },
      A::fields());
  return Value(std::move(map));
}

/// The attributes of a call of any op, which lives as long as this: a map is made of them when asked for.
class AttrsView {
 public:
  template <class A>
  explicit AttrsView(const A& attrs) noexcept
      : attrs_(&attrs), to_value_([](const void* any) {
          if constexpr (requires { A::fields(); })
            return attrs_to_value(*static_cast<const A*>(any));
          else
            return Value();
        }) {}
  /// attrs_to_value; null for attributes that name no fields.
  [[nodiscard]] Value to_value() const { return to_value_(attrs_); }

 private:
  const void* attrs_;
  Value (*to_value_)(const void*);
};

/// The types of the attributes, in their order, as docs/ops.md writes them.
template <class A>
[[nodiscard, gnu::cold]] std::vector<std::string> attr_types() {
  const A attrs{};
  std::vector<std::string> types;
  std::apply(
      [&](const auto&... field) {
        (types.push_back(detail::type_name<std::remove_cvref_t<decltype(attrs.*(field.member))>>()), ...);
      },
      A::fields());
  return types;
}

/// The result dtype that the caller gave: of ops with an `std::optional<DType> dtype` attribute.
template <class A>
[[nodiscard]] std::optional<DType> explicit_dtype(const A& attrs) {
  if constexpr (requires { attrs.dtype.has_value(); })
    return attrs.dtype;
  else
    return std::nullopt;
}

}  // namespace mezzo
