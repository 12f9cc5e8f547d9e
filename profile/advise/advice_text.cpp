// An advisory as text, in lines of a width that terminals have.
#include <algorithm>
#include <ostream>

#include "mezzo/core/text/text_table.h"
#include "mezzo/profile/advise.h"

namespace mezzo::amp {

namespace {

constexpr std::size_t kWidth = 100;

/// A text behind a label, in lines that are indented as far.
std::string wrapped(const std::string& label, std::string_view text) {
  std::string lines = label;
  std::size_t column = label.size();
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column + 1 + end > kWidth && column > label.size()) {
      lines += "\n" + std::string(label.size(), ' ');
      column = label.size();
    } else if (column > label.size()) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + "\n";
}

std::string list(const std::string& title, const std::vector<std::string>& rows) {
  std::string text = rows.empty() ? "" : title + ":\n";
  for (const std::string& row : rows) text += wrapped("  - ", row);
  return text;
}

}  // namespace

std::string to_string(const Advisory& advisory) {
  const double speed = advisory.f32_seconds / advisory.seconds;
  const auto ms = [](double seconds) { return fixed_text(seconds * 1e3, 3) + " ms"; };
  std::string text = "A step in " + to_string(advisory.dtype) + " on " + mezzo::to_string(advisory.device) +
                     " takes " + ms(advisory.seconds) + ", in f32 " + ms(advisory.f32_seconds) + ": " +
                     fixed_text(speed, 2) + " x as fast\n";
  for (const std::string& fact : advisory.facts) text += wrapped("  ", fact);
  const bool gains = std::any_of(advisory.advice.begin(), advisory.advice.end(),
                                 [](const Advice& advice) { return advice.kind != AdviceKind::memory; });
  if (!gains) text += "Nothing to gain here.\n";
  std::size_t number = 0;
  for (const Advice& advice : advisory.advice) {
    std::string gain;
    if (advice.gain)
      gain = "[" + std::string(advice.tried ? "" : "at most ") + fixed_text(*advice.gain, 2) + " x] ";
    text += advice.kind == AdviceKind::memory ? wrapped("Memory ", advice.text)
                                              : wrapped(std::to_string(++number) + ". ", gain + advice.text);
  }
  text += list("Tried in vain", advisory.in_vain) + list("Not tried", advisory.untried);
  text.pop_back();
  return text;
}

std::ostream& operator<<(std::ostream& stream, const Advisory& advisory) {
  return stream << to_string(advisory);
}

}  // namespace mezzo::amp
