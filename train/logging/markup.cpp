// Escapes, coordinates and dates.
#include "mezzo/train/logging/markup.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <ctime>

#include "mezzo/core/value.h"

namespace mezzo::train::detail {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// The length of the valid UTF-8 sequence that `text` begins with; 0 where it begins with none.
std::size_t sequence_of(std::string_view text) {
  for (std::size_t length = 1; length <= 4 && length <= text.size(); ++length) {
    if (is_valid_utf8(text.substr(0, length))) return length;
  }
  return 0;
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '&':
      out += "&amp;";
      return;
    case '<':
      out += "&lt;";
      return;
    case '>':
      out += "&gt;";
      return;
    case '"':
      out += "&quot;";
      return;
    case '\'':
      out += "&#39;";
      return;
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(c);
  const bool allowed = (code >= 0x20 && code != 0x7F) || c == '\n' || c == '\t';
  if (allowed) {
    out += c;
  } else {
    out += kReplacement;
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_of(text);
    if (length > 1) {
      // U+FFFE and U+FFFF are no characters of XML.
      const std::string_view character = text.substr(0, length);
      out += character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF" ? kReplacement : character;
    } else if (length == 1) {
      append_escaped(out, text.front());
    } else {
      out += kReplacement;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string json_in_markup(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

void append_coordinate(std::string& out, double value) {
  constexpr double kMost = 1e6;
  const auto tenths = static_cast<std::int64_t>(std::llround(std::clamp(value, -kMost, kMost) * 10));
  std::array<char, 32> text{};
  const std::int64_t whole = tenths / 10, rest = std::abs(tenths % 10);
  if (tenths < 0 && whole == 0) out += '-';
  out.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), whole).ptr);
  if (rest != 0) (out += '.') += static_cast<char>('0' + rest);
}

std::string time_text(double seconds) {
  const bool sane = seconds > -1e11 && seconds < 1e11;
  const auto whole = static_cast<std::time_t>(sane ? std::floor(seconds) : 0);
  std::tm parts{};
  if (::gmtime_r(&whole, &parts) == nullptr) return "";
  std::string text = std::to_string(parts.tm_year + 1900);
  const auto add = [&](char before, int number) {
    (text += before) += number < 10 ? "0" : "";
    text += std::to_string(number);
  };
  add('-', parts.tm_mon + 1);
  add('-', parts.tm_mday);
  add(' ', parts.tm_hour);
  add(':', parts.tm_min);
  add(':', parts.tm_sec);
  return text + " UTC";
}

}  // namespace mezzo::train::detail
