// `Value` as JSON text. Written by hand, apart from parsing, so that core needs no JSON library and messages
// can quote values and text from files safely.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "mezzo/core/parallel/float_environment.h"
#include "mezzo/core/text/utf8.h"
#include "mezzo/core/value.h"

namespace mezzo {

namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// Length of the UTF-8 sequence that `text` (not empty) begins with, or 0 when it begins with none.
std::size_t sequence_length(std::string_view text) {
  const detail::Utf8Character first = detail::utf8_at(text, 0);
  return first.code == detail::kNoCharacter ? 0 : first.length;
}

void append_control(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef", kNamed = "\b\f\n\r\t", kLetters = "bfnrt";
  const auto bits = static_cast<unsigned char>(c);
  if (const std::size_t at = kNamed.find(c); at != std::string_view::npos)
    (out += '\\') += kLetters[at];
  else
    ((out += "\\u00") += kHex[bits >> 4U]) += kHex[bits & 15U];
}

/// The length of the run of ASCII characters at the beginning of `text` that need no escape in JSON.
std::size_t plain_length(std::string_view text) {
  const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; };
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_plain) - text.begin());
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    if (const std::size_t plain = plain_length(text); plain > 0) {
      out += text.substr(0, plain);
      text.remove_prefix(plain);
      continue;
    }
    const std::size_t length = sequence_length(text);
    const auto c = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c < 0x20 || c == 0x7F) {
      append_control(out, text[0]);
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

void append_double(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "\"nan\"";
  } else if (std::isinf(value)) {
    out += value > 0 ? "\"inf\"" : "\"-inf\"";
  } else {
    // Where a program flushes them to zero, subnormal numbers would be written as 0.
    const detail::WithFloatEnvironment standard(detail::FloatEnvironment::standard());
    std::array<char, 32> buffer;  // the longest shortest form of a double has 24 characters
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    const std::string_view digits(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    out += digits;
    if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
  }
}

/// Writes one value and all values inside of it.
class Writer {
 public:
  Writer(std::string& out, int indent) : out_(out), indent_(indent) {}

  void write(const Value& value, int level) {
    switch (value.kind()) {
      case Value::Kind::null:
        out_ += "null";
        return;
      case Value::Kind::boolean:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case Value::Kind::integer:
        out_ += std::to_string(value.as_int());
        return;
      case Value::Kind::real:
        append_double(out_, value.as_double());
        return;
      case Value::Kind::string:
        append_string(out_, value.as_string());
        return;
      case Value::Kind::list:
        write_list(value.as_list(), level);
        return;
      case Value::Kind::map:
        write_map(value.as_map(), level);
        return;
    }
  }

 private:
  void new_line(int level) {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(level), ' ');
  }

  void write_list(const Value::List& list, int level) {
    const bool flat =
        std::none_of(list.begin(), list.end(), [](const Value& v) { return v.is_list() || v.is_map(); });
    out_ += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_ += flat && indent_ >= 0 ? ", " : ",";
      if (!flat) new_line(level + 1);
      write(list[i], level + 1);
    }
    if (!flat) new_line(level);
    out_ += ']';
  }

  void write_map(const Value::Map& map, int level) {
    out_ += '{';
    for (std::size_t i = 0; i < map.size(); ++i) {
      if (i > 0) out_ += ',';
      new_line(level + 1);
      append_string(out_, map[i].first);
      out_ += indent_ < 0 ? ":" : ": ";
      write(map[i].second, level + 1);
    }
    if (!map.empty()) new_line(level);
    out_ += '}';
  }

  std::string& out_;
  int indent_;
};

}  // namespace

std::string Value::to_string(int indent) const {
  std::string out;
  Writer(out, indent).write(*this, 0);
  return out;
}

std::string_view to_string(Value::Kind kind) noexcept {
  constexpr std::array<std::string_view, 7> kNames{"null", "bool", "int", "double", "string", "list", "map"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool is_valid_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    if (const std::size_t plain = plain_length(text); plain > 0) {
      text.remove_prefix(plain);
      continue;
    }
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string quote(std::string_view text, std::size_t max_bytes) {
  std::size_t cut = std::min(text.size(), max_bytes);
  // Not in the middle of a UTF-8 character.
  for (int back = 0; back < 3 && cut > 0 && cut < text.size() && is_continuation(text[cut]); ++back) --cut;
  std::string out;
  append_string(out, text.substr(0, cut));
  if (cut < text.size()) out += "...";
  return out;
}

}  // namespace mezzo
