// A small dynamic value: what JSON can say, with integers kept apart from reals. Attributes of ops, options
// of optimizers and reports cross layers in it, so that no header needs a JSON library; parsing text into it
// is `io/json.h`'s work.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/host_device.h"

namespace mezzo {

/// Null, bool, 64-bit integer, double, string, list or map. A map keeps the order its keys were given in, and
/// no key occurs twice. Copying is deep. Nesting is limited by the stack (some ten thousand levels): copies,
/// comparison, text and destruction recurse.
class Value {
 public:
  using List = std::vector<Value>;
  using Map = std::vector<std::pair<std::string, Value>>;
  enum class Kind : std::uint8_t { null, boolean, integer, real, string, list, map };

  // Implicit on purpose: `Value::Map{{"lr", 1e-3}, {"nesterov", true}}` is what call sites should look like.
  // Bool and numbers are templates so that pointers do not turn into bools and characters do not turn into
  // integers.
  Value() noexcept : boolean_(false) {}
  Value(std::nullptr_t) noexcept : Value() {}
  template <std::same_as<bool> T>
  Value(T value) noexcept : boolean_(value), kind_(Kind::boolean) {}
  /// Any integer. Throws: ValueError where an unsigned one exceeds 2^63 - 1.
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
           !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>)
      Value(T value)
      : integer_(checked(value)), kind_(Kind::integer) {}
  template <std::floating_point T>
  Value(T value) noexcept : real_(static_cast<double>(value)), kind_(Kind::real) {}
  Value(const char* value);
  Value(std::string_view value);
  Value(std::string value) noexcept;
  Value(List value) noexcept;
  /// Throws: ValueError when a key occurs twice.
  Value(Map value);
  /// A list of the elements, for shapes and the like.
  template <class T>
  requires(!std::same_as<T, Value> && std::constructible_from<Value, T>) Value(std::span<const T> values)
      : Value(List(values.begin(), values.end())) {}
  template <class T>
  requires(!std::same_as<T, Value> && std::constructible_from<Value, T>) Value(const std::vector<T>& values)
      : Value(List(values.begin(), values.end())) {}
  /// Null when there is none.
  template <class T>
  requires(!std::same_as<T, Value> && std::constructible_from<Value, const T&>)
      Value(const std::optional<T>& value)
      : Value(value ? Value(*value) : Value()) {}

  Value(const Value& other);
  /// Leaves `other` of the kind it was, with nothing in it.
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  /// A list of the arguments. The sure way to nest lists: compilers disagree on `List{List{1}}`, which clang
  /// 14 takes for a copy of the inner list and g++ 12 for a list that holds it.
  template <class... T>
  requires(std::constructible_from<Value, T>&&...) [[nodiscard]] static Value list(T&&... elements) {
    List result;
    result.reserve(sizeof...(T));
    (result.push_back(Value(std::forward<T>(elements))), ...);
    return result;
  }

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] bool is_null() const noexcept { return kind() == Kind::null; }
  [[nodiscard]] bool is_bool() const noexcept { return kind() == Kind::boolean; }
  [[nodiscard]] bool is_int() const noexcept { return kind() == Kind::integer; }
  [[nodiscard]] bool is_double() const noexcept { return kind() == Kind::real; }
  /// An integer or a double.
  [[nodiscard]] bool is_number() const noexcept { return is_int() || is_double(); }
  [[nodiscard]] bool is_string() const noexcept { return kind() == Kind::string; }
  [[nodiscard]] bool is_list() const noexcept { return kind() == Kind::list; }
  [[nodiscard]] bool is_map() const noexcept { return kind() == Kind::map; }

  // Each returns the content and throws ValueError, naming the kind and the value found, for a value of
  // another kind. Of a temporary, `json::parse(text)["names"].as_list()`, it is moved out.
  [[nodiscard]] bool as_bool() const;
  /// Integers only: 3.0 is refused, so that nothing is rounded unseen.
  [[nodiscard]] std::int64_t as_int() const;
  /// A double; an integer (rounded to nearest where it exceeds 2^53); or one of the strings "inf", "-inf",
  /// "nan", as JSON has no literals for these.
  [[nodiscard]] double as_double() const;
  [[nodiscard]] const std::string& as_string() const&;
  [[nodiscard]] std::string as_string() && { return moved(as_string()); }
  [[nodiscard]] const List& as_list() const&;
  [[nodiscard]] List as_list() && { return moved(as_list()); }
  [[nodiscard]] const Map& as_map() const&;
  [[nodiscard]] Map as_map() && { return moved(as_map()); }

  /// Number of elements of a list or entries of a map; ValueError on any other kind.
  [[nodiscard]] std::size_t size() const;
  /// The value under `key`, or nullptr. Searches from front to back. ValueError when this is not a map.
  [[nodiscard]] const Value* find(std::string_view key) const&;
  [[nodiscard]] std::optional<Value> find(std::string_view key) &&;
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// The value under `key`. ValueError, listing the keys there are, when it is missing or this is not a map.
  [[nodiscard]] const Value& at(std::string_view key) const&;
  [[nodiscard]] Value at(std::string_view key) && { return moved(at(key)); }
  /// Element `index` of a list. ValueError when this is not a list, IndexError when it is too short.
  [[nodiscard]] const Value& at(std::size_t index) const&;
  [[nodiscard]] Value at(std::size_t index) && { return moved(at(index)); }

  /// at(): `value["optimizer"]["lr"]`, `value[0]`.
  const Value& operator[](std::string_view key) const& { return at(key); }
  Value operator[](std::string_view key) && { return moved(at(key)); }
  template <std::integral I>
  const Value& operator[](I index) const& {
    return at(static_cast<std::size_t>(index));
  }
  template <std::integral I>
  Value operator[](I index) && {
    return moved(at(static_cast<std::size_t>(index)));
  }

  /// Sets `key`, in its place when it exists and at the end otherwise. Null becomes a map first; ValueError
  /// on any other kind. Returns *this, for chains.
  Value& set(std::string key, Value value);
  /// Appends to a list. Null becomes a list first; ValueError on any other kind. Returns *this.
  Value& push_back(Value value);

  /// JSON text. Compact for `indent < 0`; otherwise one entry per line, `indent` spaces per level, but lists
  /// that hold no list or map stay on one line. Doubles are written in the shortest form that reads back to
  /// the same bits, and always with a '.' or an exponent, so that kinds survive; doubles that are not finite
  /// become the strings "inf", "-inf", "nan". Bytes that are not UTF-8 become U+FFFD.
  [[nodiscard]] std::string to_string(int indent = -1) const;

  /// Same kind and same content: 1 and 1.0 differ. Two NaN are equal, since this compares data and does no
  /// arithmetic; 0.0 equals -0.0. Maps are equal when they hold equal entries, in whatever order.
  friend bool operator==(const Value& a, const Value& b);

  /// The first key (by order of text) that occurs more than once, or nullptr. n log n.
  [[nodiscard]] static const std::string* duplicate_key(const Map& map);

 private:
  /// A part of this value, taken out.
  template <class T>
  static T moved(const T& part) {
    return std::move(const_cast<T&>(part));
  }
  template <std::integral T>
  static std::int64_t checked(T value) {
    if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
    refuse_integer(static_cast<std::uint64_t>(value));
  }
  [[noreturn]] static void refuse_integer(std::uint64_t value);
  [[noreturn]] void refuse(std::string_view op, std::string_view expected) const;

  /// Copies or moves the content of `other` into this one, which is uninitialised.
  template <class Other>
  void hold(Other&& other);
  void destroy() noexcept;

  // A union and not a std::variant, whose members every file that includes this would instantiate.
  union {
    bool boolean_;
    std::int64_t integer_;
    double real_;
    std::string string_;
    List list_;
    Map map_;
  };
  Kind kind_ = Kind::null;
};

/// "null", "bool", "int", "double", "string", "list" or "map".
[[nodiscard]] std::string_view to_string(Value::Kind kind) noexcept;

/// The largest count of steps, batches or epochs that a saved state may have: a double holds every integer up
/// to it, and no training counts on from there to the end of an int64.
inline constexpr std::int64_t kLargestCount = std::int64_t{1} << 53;

/// The count under a key of a saved state. Throws: ValueError, naming `op`, unless it is an int from 0 to
/// kLargestCount.
std::int64_t saved_count(std::string_view op, const Value& state, std::string_view key);
/// Throws: ValueError, naming `op`, unless a count that a tensor held is whole and from 0 to kLargestCount.
void require_saved_count(std::string_view op, std::string_view name, double count);

/// True when `text` is well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] bool is_valid_utf8(std::string_view text) noexcept;

/// `text` as a JSON string in quotes, control characters escaped, cut after `max_bytes` with "..." after the
/// quote: how text from files appears in messages.
[[nodiscard]] std::string quote(std::string_view text, std::size_t max_bytes = 80);

namespace detail {
/// A list in a message: text_of(element) of the first `most` elements, "a, b, c and 4 more".
template <class List, class F>
[[nodiscard]] std::string listed(const List& list, std::size_t most, const F& text_of,
                                 std::string_view separator = ", ") {
  std::string text;
  std::size_t count = 0;
  for (const auto& element : list) {
    if (++count <= most) text.append(count > 1 ? separator : "").append(text_of(element));
  }
  return count > most ? text + " and " + std::to_string(count - most) + " more" : text;
}
}  // namespace detail

}  // namespace mezzo
