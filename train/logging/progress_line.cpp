// Lays out the line of a progress bar in a given width.
#include "mezzo/train/logging/progress_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "mezzo/core/text/text_table.h"

namespace mezzo::train::detail {

namespace {

constexpr std::string_view kDone = "\x1b[32m", kLeft = "\x1b[90m", kBad = "\x1b[31m", kPlain = "\x1b[0m";
constexpr std::size_t kLeastBar = 8, kMostBar = 40;

/// Columns of UTF-8 text: its code points.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void append_times(std::string& out, std::string_view text, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) out += text;
}

/// A bar of `width` columns, of which `share` is done.
std::string bar_of(double share, std::size_t width, const ProgressStyle& style) {
  const auto halves = static_cast<std::size_t>(share * 2 * static_cast<double>(width));
  const std::size_t full = std::min(halves / 2, width);
  const bool half = full < width && halves % 2 == 1;
  std::string bar;
  if (!style.unicode) {
    bar = "[" + std::string(full, '=');
    if (full < width) bar += '>';
    bar.resize(1 + width, ' ');
    return bar + "]";
  }
  if (style.colour) bar += kDone;
  append_times(bar, "━", full);
  if (half) bar += "╸";
  if (style.colour) bar += kLeft;
  append_times(bar, style.colour ? "━" : "─", width - full - (half ? 1 : 0));
  if (style.colour) bar += kPlain;
  return bar;
}

/// Parts of the line with two spaces between them, as long as there is room.
class Line {
 public:
  explicit Line(std::size_t columns) : left_(columns) {}
  /// Whether it fitted. `shown` has `columns` columns.
  bool add(std::string_view shown, std::size_t columns) {
    const std::size_t gap = text_.empty() ? 0 : 2;
    if (columns + gap > left_) return false;
    text_.append(gap, ' ') += shown;
    left_ -= columns + gap;
    return true;
  }
  bool add(std::string_view shown) { return add(shown, columns_of(shown)); }
  [[nodiscard]] std::size_t left() const { return left_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::size_t left_;
};

std::string percent(double share) {
  const auto whole = static_cast<int>(share * 100);
  std::string text = std::to_string(whole) + "%";
  text.insert(0, text.size() < 4 ? 4 - text.size() : 0, ' ');
  return text;
}

std::string time_part(const Progress& progress) {
  std::string text = duration_text(progress.elapsed);
  if (progress.total <= 0) return text;
  const auto left = static_cast<double>(std::max<std::int64_t>(progress.total - progress.step, 0));
  text += '<';
  return text + (left == 0 ? "0:00" : progress.rate > 0 ? duration_text(left / progress.rate) : "?");
}

}  // namespace

std::string duration_text(double seconds) {
  constexpr double kMost = 1e9;
  const auto whole = static_cast<std::int64_t>(std::clamp(std::isnan(seconds) ? 0 : seconds, 0.0, kMost));
  const auto two = [](std::int64_t number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  const std::string tail = ":" + two(whole % 60);
  return hours > 0 ? std::to_string(hours) + ":" + two(minutes) + tail : std::to_string(minutes) + tail;
}

std::string short_number(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 32> text{};
  char* const end = text.data() + text.size();
  const double size = std::abs(value);
  if (value == std::floor(value) && size < 1e7) {
    return {text.data(), std::to_chars(text.data(), end, static_cast<std::int64_t>(value)).ptr};
  }
  if (size >= 1e4) return tick_text(value);
  return {text.data(), std::to_chars(text.data(), end, value, std::chars_format::general, 4).ptr};
}

std::string progress_line(const Progress& progress, const ProgressStyle& style) {
  const bool known = progress.total > 0;
  const double share =
      known ? std::clamp(static_cast<double>(progress.step) / static_cast<double>(progress.total), 0.0, 1.0)
            : 0;
  const std::string head = known ? percent(share) : "";
  const std::string count = known ? std::to_string(progress.step) + "/" + std::to_string(progress.total)
                                  : std::to_string(progress.step) + " " + progress.unit;
  const auto width = static_cast<std::size_t>(std::max(style.columns, 1));
  // Room for the share in front and the least bar is kept where there can be room.
  const std::size_t kept = !known ? 0 : columns_of(head) + 2 + (style.bar && width >= 60 ? kLeastBar : 0);
  Line tail(width > kept ? width - kept : 0);
  tail.add(count);
  if (std::isfinite(progress.rate) && progress.rate > 0) {
    const bool slow = progress.rate < 1;
    const double shown = slow ? 1 / progress.rate : progress.rate;
    const std::string number = short_number(shown >= 1000 ? std::round(shown) : shown);
    tail.add(number + (slow ? " s/" + progress.unit : " " + progress.unit + "/s"));
  }
  tail.add(time_part(progress));
  for (const auto& [name, value] : progress.values) {
    const std::string number = short_number(value);
    const bool bad = style.colour && !std::isfinite(value);
    const std::string shown = bad ? std::string(kBad) + number + std::string(kPlain) : number;
    if (!tail.add(name + " " + shown, columns_of(name) + 1 + number.size())) break;
  }
  std::string line = head;
  if (known && style.bar && width >= 60) {
    const std::size_t room = tail.left() + kLeastBar;
    const std::size_t ends = style.unicode ? 0 : 2;
    line += " " + bar_of(share, std::min(room, kMostBar) - ends, style) + " ";
  } else if (known) {
    line += "  ";
  }
  return line + tail.text();
}

}  // namespace mezzo::train::detail
