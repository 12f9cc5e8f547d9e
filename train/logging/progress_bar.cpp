// The progress bar: when to draw, and what the terminal can show.
#include "mezzo/train/progress_bar.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/train/logging/progress_line.h"

namespace mezzo::train {

namespace {

constexpr double kLeastSeconds = 0.1;
constexpr int kDefaultColumns = 80, kMostColumns = 1000;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// Whether the locale of the environment, of which the program may not have made use, is one of UTF-8.
bool environment_is_utf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = variable(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string_view::npos || value.find("utf8") != std::string_view::npos ||
           value.find("utf-8") != std::string_view::npos;
  }
  return false;
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

/// Throughput of a clock, which the bar's options hold too.
ThroughputOptions rate_options(const ProgressBarOptions& options) {
  constexpr std::size_t kRedraws = 50;
  return {.window = kRedraws, .clock = options.clock};
}

}  // namespace

ProgressBar::ProgressBar(ProgressBarOptions options)
    : options_(std::move(options)), rate_(rate_options(options_)) {
  if (options_.total < 0) {
    throw ValueError("ProgressBar", "a total of at least 0 steps", std::to_string(options_.total),
                     "leave it out where it is not known");
  }
  if (!options_.clock) options_.clock = steady_seconds;
  options_.seconds = std::max(options_.seconds, kLeastSeconds);
  terminal_ = options_.terminal.value_or(::isatty(options_.descriptor) == 1 && variable("TERM") != "dumb");
  options_.colour = options_.colour.value_or(terminal_ && variable("NO_COLOR").empty());
  options_.unicode = options_.unicode.value_or(environment_is_utf8());
  began_ = options_.clock();
}

bool ProgressBar::is_due(std::int64_t step) {
  if (!drawn_) return true;
  if (options_.total > 0 && step >= options_.total && !at_end_) return true;
  return options_.clock() - drawn_at_ >= (terminal_ ? options_.seconds : options_.plain_seconds);
}

int ProgressBar::columns() const {
  if (options_.columns) return std::clamp(*options_.columns, 1, kMostColumns);
  winsize size{};
  if (::ioctl(options_.descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::min<int>(size.ws_col, kMostColumns);
  const std::string_view text = variable("COLUMNS");
  int columns = 0;
  std::from_chars(text.data(), text.data() + text.size(), columns);
  return columns > 0 ? std::min(columns, kMostColumns) : kDefaultColumns;
}

void ProgressBar::note(const LogRecord& record) {
  if (first_ < 0) {
    first_ = step_ = record.step;
    rate_.reset();
  }
  step_ = record.step;
  for (const LogScalar& value : record.values) {
    const bool wanted = options_.show.empty() || std::find(options_.show.begin(), options_.show.end(),
                                                           value.name) != options_.show.end();
    if (!wanted) continue;
    const auto found = std::find_if(shown_.begin(), shown_.end(),
                                    [&](const Shown& shown) { return shown.name == value.name; });
    if (found != shown_.end()) {
      found->value = value.value;
    } else {
      shown_.push_back({std::string(value.name), value.value});
    }
  }
  const auto place = [&](const Shown& shown) {
    return std::find(options_.show.begin(), options_.show.end(), shown.name) - options_.show.begin();
  };
  if (!options_.show.empty()) {
    std::stable_sort(shown_.begin(), shown_.end(),
                     [&](const Shown& a, const Shown& b) { return place(a) < place(b); });
  }
  is_current_ = false;
}

void ProgressBar::write(const LogRecord& record) {
  const bool due = is_due(record.step);
  note(record);
  if (due) draw();
}

void ProgressBar::draw() {
  drawn_at_ = options_.clock();
  drawn_ = is_current_ = true;
  at_end_ = options_.total > 0 && step_ >= options_.total;
  const std::int64_t before = rate_.total().steps;
  if (step_ - first_ > before) rate_.update({.steps = step_ - first_ - before});
  detail::Progress progress{
      step_, options_.total, rate_.steps_per_second(), drawn_at_ - began_, options_.unit, {}};
  for (const Shown& shown : shown_) progress.values.emplace_back(shown.name, shown.value);
  // A line as wide as the terminal would make some of them wrap.
  const detail::ProgressStyle style{terminal_ ? columns() - 1 : kMostColumns, terminal_, *options_.unicode,
                                    *options_.colour};
  const std::string line = detail::progress_line(progress, style);
  write_all(options_.descriptor, terminal_ ? "\r" + line + "\x1b[K" : line + "\n");
  line_is_open_ = terminal_;
}

void ProgressBar::resume(std::int64_t step) {
  step_ = step;
  first_ = -1;  // the time begins with the next record
  at_end_ = false;
}

void ProgressBar::extend(std::int64_t total) {
  options_.total = total;
  began_ = options_.clock();
  first_ = -1;
  drawn_ = at_end_ = false;
}

void ProgressBar::close() {
  if (!is_current_) draw();
  if (line_is_open_) write_all(options_.descriptor, "\n");
  line_is_open_ = false;
}

}  // namespace mezzo::train
