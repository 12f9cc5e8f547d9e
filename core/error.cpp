// The text of errors: what an op expected, what it got, and what to do.
#include "mezzo/core/error.h"

#include <array>
#include <charconv>

namespace mezzo {

namespace {
std::string compose(std::string_view op, std::string_view expected, std::string_view got,
                    std::string_view fix) {
  std::string text;
  text.append(op).append(": expected ").append(expected).append(", got ").append(got);
  if (!fix.empty()) text.append("; ").append(fix);
  return text;
}
}  // namespace

Error::Error(std::string_view op, std::string_view expected, std::string_view got, std::string_view fix)
    : std::runtime_error(compose(op, expected, got, fix)),
      op_(op),
      expected_(expected),
      got_(got),
      fix_(fix) {}

std::string to_string(std::span<const std::int64_t> values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace mezzo
