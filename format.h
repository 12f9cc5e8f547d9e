// What prints, also by std::format and fmt::format: tensors, modules, summaries, reports, values, and the
// small types. Include <fmt/format.h> before it for fmt; std::format is there where the compiler has it.
//   fmt::print("{}\n", x);  std::format("{:>20}", x.dtype())
// Not part of mezzo.h, as <format> costs more than all of that.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <version>

#ifdef __cpp_lib_format
#include <format>
#endif

#include "mezzo/mezzo.h"

namespace mezzo {

/// What to_string makes a text of. A format's fill, alignment and width apply to the whole text.
template <class T>
concept Formattable = std::derived_from<T, Tensor> || std::derived_from<T, nn::Module> ||
    std::same_as<T, DType> || std::same_as<T, Device> || std::same_as<T, Dims> ||
    std::same_as<T, nn::Summary> || std::same_as<T, nn::surgery::Report> || std::same_as<T, amp::TraceReport>;

namespace detail {
/// to_string of mezzo's; in a formatter the name would be another library's.
template <Formattable T>
[[nodiscard]] std::string text_of(const T& value) {
  return to_string(value);
}
}  // namespace detail

}  // namespace mezzo

#ifdef __cpp_lib_format
template <mezzo::Formattable T>
struct std::formatter<T, char> : std::formatter<std::string_view, char> {
  template <class Context>
  auto format(const T& value, Context& context) const {
    return std::formatter<std::string_view, char>::format(mezzo::detail::text_of(value), context);
  }
};
#endif

#ifdef FMT_VERSION
template <mezzo::Formattable T>
struct fmt::formatter<T, char> : fmt::formatter<std::string_view, char> {
  template <class Context>
  auto format(const T& value, Context& context) const {
    return fmt::formatter<std::string_view, char>::format(mezzo::detail::text_of(value), context);
  }
};
#endif
