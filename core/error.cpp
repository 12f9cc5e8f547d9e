// The text of errors: what an op expected, what it got, and what to do.
#include "mezzo/core/error.h"

#include <array>
#include <charconv>
#include <functional>

#include "mezzo/core/function.h"

namespace mezzo {

namespace {
/// Without line breaks and other control characters, which names and paths of a program may hold: a message
/// is one line.
std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F) {
      line += c;
    } else if (c == '\n') {
      line += "\\n";
    } else {
      constexpr std::string_view kDigits = "0123456789abcdef";
      line.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    }
  }
  return line;
}

std::string compose(std::string_view op, std::string_view expected, std::string_view got,
                    std::string_view fix) {
  std::string text;
  text.append(op).append(": expected ").append(expected).append(", got ").append(got);
  if (!fix.empty()) text.append("; ").append(fix);
  return one_line(text);
}
}  // namespace

void Error::set_place(std::string_view place) {
  if (!place_.empty()) return;
  place_ = one_line(place);
  if (place_ == op_) return;  // the module's own
  got_ += " in " + place_;
  std::runtime_error::operator=(std::runtime_error(compose(op_, expected_, got_, fix_)));
}

Error::Error(std::string_view op, std::string_view expected, std::string_view got, std::string_view fix)
    : std::runtime_error(compose(op, expected, got, fix)),
      op_(one_line(op)),
      expected_(one_line(expected)),
      got_(one_line(got)),
      fix_(one_line(fix)) {}

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

/// Thrown here, so that function.h does not include <functional>.
void detail::refuse_empty_call() { throw std::bad_function_call(); }

}  // namespace mezzo
