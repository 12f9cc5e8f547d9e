// Draws charts. Everything is laid out here, as a viewer of SVG breaks no lines; widths of text are
// estimates.
#include "mezzo/train/logging/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "mezzo/train/logging/markup.h"
#include "mezzo/train/logging/ticks.h"

namespace mezzo::train::detail {

namespace {

constexpr std::size_t kColours = 6;
constexpr double kTitleHeight = 26, kLegendHeight = 18, kBottom = 24, kRight = 14, kTickLength = 4;
constexpr double kBorder = 12;
constexpr double kCharWidth = 6.6;  // of 12 px text, on average

double text_width(std::string_view text) {
  const auto characters = std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  return kCharWidth * static_cast<double>(characters);
}

/// The plot's place in the picture, and how values become coordinates.
struct Frame {
  double left = 0, top = 0, right = 0, bottom = 0;
  Range steps, values;
  bool log_scale = false;

  [[nodiscard]] double x(double step) const {
    return left + (step - steps.low) / (steps.high - steps.low) * (right - left);
  }
  [[nodiscard]] double y(double value) const {
    if (log_scale) {
      const double low = std::log10(values.low), high = std::log10(values.high);
      return bottom - (std::log10(value) - low) / (high - low) * (bottom - top);
    }
    // Halves, as the difference of two large numbers may be infinite.
    return bottom - (value / 2 - values.low / 2) / (values.high / 2 - values.low / 2) * (bottom - top);
  }
};

bool is_drawn(const Chart& chart, const ThinPoint& point) {
  return std::isfinite(point.value) && (!chart.log_scale || point.value > 0);
}

/// Of all drawn values; nothing drawn: 0 to 1 (1 to 10).
Range values_of(const Chart& chart) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ChartLine& line : chart.lines) {
    for (const ThinBucket& bucket : line.points->buckets()) {
      if (!bucket.has_values()) continue;
      for (const ThinPoint& point : {bucket.first, bucket.last, bucket.least, bucket.largest}) {
        if (!is_drawn(chart, point)) continue;
        low = std::min(low, point.value);
        high = std::max(high, point.value);
      }
    }
  }
  if (low > high) return chart.log_scale ? Range{1, 10} : Range{0, 1};
  // Values that stay above 0 and come near it are seen against it.
  if (!chart.log_scale && low > 0 && low < 0.3 * high) return {0, padded({0, high}, false).high};
  const Range range = padded({low, high}, chart.log_scale);
  if (!chart.log_scale && low >= 0) return {std::max(range.low, 0.0), range.high};
  return range;
}

Range steps_of(const Chart& chart) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ChartLine& line : chart.lines) {
    if (line.points->empty()) continue;
    low = std::min(low, static_cast<double>(line.points->buckets().front().begin));
    high = std::max(high, static_cast<double>(line.points->buckets().back().end));
  }
  if (low > high) return {0, 1};
  return high > low ? Range{low, high} : Range{low - 1, high + 1};
}

void append_text(std::string& out, std::string_view classes, double x, double y, std::string_view text) {
  ((out += "<text class=\"") += classes) += "\" x=\"";
  append_coordinate(out, x);
  out += "\" y=\"";
  append_coordinate(out, y);
  ((out += "\">") += escaped(text)) += "</text>";
}

void append_line(std::string& out, std::string_view classes, double x1, double y1, double x2, double y2) {
  ((out += "<path class=\"") += classes) += "\" d=\"M";
  append_coordinate(out, x1);
  out += ' ';
  append_coordinate(out, y1);
  out += 'L';
  append_coordinate(out, x2);
  out += ' ';
  append_coordinate(out, y2);
  out += "\"/>";
}

/// The path of a line: through the four points of each bucket in the order of their steps. Buckets without a
/// finite value interrupt it.
std::string path_of(const Chart& chart, const ThinSeries& series, const Frame& frame) {
  std::string path;
  bool connected = false;
  for (const ThinBucket& bucket : series.buckets()) {
    if (!bucket.has_values()) {
      connected = false;
      continue;
    }
    std::array<ThinPoint, 4> points{bucket.first, bucket.least, bucket.largest, bucket.last};
    if (points[1].step > points[2].step) std::swap(points[1], points[2]);
    double last_x = -1, last_y = -1;
    for (const ThinPoint& point : points) {
      if (!is_drawn(chart, point)) continue;
      const double x = frame.x(static_cast<double>(point.step)), y = frame.y(point.value);
      if (x == last_x && y == last_y) continue;
      path += connected ? 'L' : 'M';
      append_coordinate(path, last_x = x);
      path += ' ';
      append_coordinate(path, last_y = y);
      connected = true;
    }
  }
  return path;
}

/// Through the means of the buckets.
std::string mean_path_of(const Chart& chart, const ThinSeries& series, const Frame& frame) {
  std::string path;
  bool connected = false;
  for (const ThinBucket& bucket : series.buckets()) {
    const double middle = static_cast<double>(bucket.begin) / 2 + static_cast<double>(bucket.end) / 2;
    const ThinPoint mean{0, bucket.mean};
    connected = connected && bucket.has_values();
    if (!bucket.has_values() || !is_drawn(chart, mean)) continue;
    path += connected ? 'L' : 'M';
    append_coordinate(path, frame.x(middle));
    path += ' ';
    append_coordinate(path, frame.y(mean.value));
    connected = true;
  }
  return path;
}

/// Whether buckets hold several points: then a line is drawn pale, and that of the means over it.
bool is_thinned(const ThinSeries& series) {
  return std::any_of(series.buckets().begin(), series.buckets().end(),
                     [](const ThinBucket& bucket) { return bucket.count > 1; });
}

/// A point that stands alone makes no line: a dot of its own.
bool is_single(const ThinSeries& series) {
  return std::count_if(series.buckets().begin(), series.buckets().end(),
                       [](const ThinBucket& bucket) { return bucket.has_values(); }) == 1 &&
         series.buckets().front().count == 1;
}

void append_axes(std::string& out, const Chart& chart, const Frame& frame, const std::vector<double>& ticks) {
  for (const double tick : ticks) {
    const double y = frame.y(tick);
    append_line(out, "g", frame.left, y, frame.right, y);
    append_text(out, "t e", frame.left - kTickLength - 2, y + 4, value_text(tick, chart.bytes));
  }
  const int wanted = frame.right - frame.left > 260 ? 5 : 3;
  const std::vector<double> steps = linear_ticks(frame.steps, wanted);
  for (const double tick : steps) {
    if (tick != std::floor(tick)) continue;  // there are no half steps
    const double x = frame.x(tick);
    append_line(out, "a", x, frame.bottom, x, frame.bottom + kTickLength);
    // 5k beside 10k, but 5000 beside 1000.
    const bool thousands = steps.back() >= 1e4 && tick >= 1e3 && tick < 1e4;
    const std::string text = thousands ? tick_text(tick / 1e3) + "k" : tick_text(tick);
    // Within the picture at its right end.
    const double room = chart.width - 2 - text_width(text) / 2;
    append_text(out, "t m", std::min(x, room), frame.bottom + 17, text);
  }
  append_line(out, "a", frame.left, frame.bottom, frame.right, frame.bottom);
}

/// Marks at the steps whose value is not 0, and where a line's value was not finite.
void append_marks(std::string& out, const Chart& chart, const Frame& frame) {
  if (chart.marks != nullptr) {
    for (const ThinBucket& bucket : chart.marks->buckets()) {
      if (!bucket.has_values() || bucket.largest.value == 0) continue;
      const double x = frame.x(static_cast<double>(bucket.largest.step));
      if (x >= frame.left && x <= frame.right) append_line(out, "k", x, frame.top, x, frame.bottom);
    }
  }
  for (const ChartLine& line : chart.lines) {
    for (const ThinBucket& bucket : line.points->buckets()) {
      if (bucket.bad == 0) continue;
      const double x = frame.x(static_cast<double>(bucket.begin) / 2 + static_cast<double>(bucket.end) / 2);
      out += "<path class=\"n\" d=\"M";
      append_coordinate(out, x);
      out += ' ';
      append_coordinate(out, frame.top);
      out += "l-4-6h8z\"/>";
    }
  }
}

struct LegendEntry {
  std::string classes, text;
  bool is_mark = false;
};

std::vector<LegendEntry> legend_of(const Chart& chart) {
  std::vector<LegendEntry> entries;
  if (chart.lines.size() > 1) {
    for (std::size_t i = 0; i < chart.lines.size(); ++i)
      entries.push_back({"l l" + std::to_string(i % kColours), chart.lines[i].name});
  }
  if (chart.marks != nullptr) entries.push_back({"k", chart.marks_name, true});
  const auto has_bad = [](const ChartLine& line) {
    return std::any_of(line.points->buckets().begin(), line.points->buckets().end(),
                       [](const ThinBucket& bucket) { return bucket.bad > 0; });
  };
  if (std::any_of(chart.lines.begin(), chart.lines.end(), has_bad))
    entries.push_back({"n", "NaN or infinite", true});
  return entries;
}

/// Draws the legend below the title, row by row. Returns where it ends.
double append_legend(std::string& out, const Chart& chart, double y) {
  constexpr double kSample = 16, kGap = 14;
  const std::vector<LegendEntry> entries = legend_of(chart);
  double x = 2;
  for (const LegendEntry& entry : entries) {
    const double width = kSample + 4 + text_width(entry.text);
    if (x > 2 && x + width > chart.width) {
      x = 2;
      y += kLegendHeight;
    }
    if (entry.classes == "n") {
      out += "<path class=\"n\" d=\"M";
      append_coordinate(out, x + kSample / 2);
      out += ' ';
      append_coordinate(out, y + 12);
      out += "l-4-6h8z\"/>";
    } else if (entry.is_mark) {
      append_line(out, entry.classes, x + kSample / 2, y + 2, x + kSample / 2, y + 14);
    } else {
      append_line(out, entry.classes, x, y + 9, x + kSample, y + 9);
    }
    append_text(out, "t", x + kSample + 4, y + 13, entry.text);
    x += width + kGap;
  }
  return entries.empty() ? y : y + kLegendHeight;
}

void append_lines(std::string& out, const Chart& chart, const Frame& frame) {
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const std::string colour = "l l" + std::to_string(i % kColours);
    const ThinSeries& series = *chart.lines[i].points;
    const std::string path = path_of(chart, series, frame);
    if (path.empty()) continue;
    const bool single = is_single(series), thinned = is_thinned(series);
    // A line of no length with round ends is a dot.
    ((((out += "<path class=\"") += colour) += single ? " d" : thinned ? " r" : "") += "\" d=\"") += path;
    out += single ? "h0\"/>" : "\"/>";
    if (thinned) {
      (((out += "<path class=\"") += colour) += "\" d=\"") += mean_path_of(chart, series, frame);
      out += "\"/>";
    }
  }
}

}  // namespace

std::string value_text(double value, bool bytes) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const std::string text = tick_text(value);
  if (!bytes) return text;
  const char last = text.back();
  return last >= '0' && last <= '9' ? text + " B" : text.substr(0, text.size() - 1) + " " + last + "B";
}

std::string_view chart_style() {
  return ".c{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif}"
         ".c .h{font-size:14px;font-weight:600;fill:#111827}.c .t{fill:#4b5563}.c .e{text-anchor:end}"
         ".c .m{text-anchor:middle}.c .bg{fill:#fff}.c .g{stroke:#e5e7eb}.c .a{stroke:#9ca3af}"
         ".c .l{fill:none;stroke-width:1.5;stroke-linejoin:round}.c .d{stroke-width:6;stroke-linecap:round}"
         ".c .r{stroke-opacity:.3;stroke-width:1}"
         ".c .k{stroke:#dc2626;stroke-opacity:.55;stroke-dasharray:3 2}.c .n{fill:#dc2626}"
         ".c .l0{stroke:#2563eb}.c .l1{stroke:#d97706}.c .l2{stroke:#059669}.c .l3{stroke:#9333ea}"
         ".c .l4{stroke:#db2777}.c .l5{stroke:#0891b2}"
         "@media(prefers-color-scheme:dark){.c .h{fill:#f3f4f6}.c .t{fill:#9ca3af}.c .bg{fill:#111827}"
         ".c .g{stroke:#2b3544}.c .a{stroke:#6b7280}.c .k{stroke:#f87171}.c .n{fill:#f87171}"
         ".c .l0{stroke:#60a5fa}.c .l1{stroke:#fbbf24}.c .l2{stroke:#34d399}.c .l3{stroke:#c084fc}"
         ".c .l4{stroke:#f472b6}.c .l5{stroke:#22d3ee}}";
}

std::string chart_svg(const Chart& chart, bool standalone, std::string_view data) {
  // A picture of its own has a border.
  const double border = standalone ? kBorder : 0;
  std::string out = "<svg class=\"c\" role=\"img\" viewBox=\"";
  for (const double number : {-border, -border, chart.width + 2 * border, chart.height + 2 * border}) {
    if (out.back() != '"') out += ' ';
    append_coordinate(out, number);
  }
  out += "\"";
  if (standalone) out += " xmlns=\"http://www.w3.org/2000/svg\"";
  out += "><title>" + escaped(chart.title) + "</title>";
  if (standalone) {
    const std::string corner = std::to_string(static_cast<int>(-kBorder));
    ((out += "<style>") += chart_style()) += "</style><rect class=\"bg\" x=\"" + corner + "\" y=\"" + corner +
                                             "\" width=\"100%\" height=\"100%\"/>";
  }
  out += data;
  append_text(out, "h", 2, 16, chart.title);
  Frame frame;
  frame.top = append_legend(out, chart, kTitleHeight) + 8;
  frame.bottom = chart.height - kBottom;
  frame.right = chart.width - kRight;
  frame.steps = steps_of(chart);
  frame.values = values_of(chart);
  frame.log_scale = chart.log_scale;
  const std::vector<double> ticks =
      chart.log_scale ? log_ticks(frame.values, 5) : linear_ticks(frame.values, 5);
  for (const double tick : ticks)
    frame.left = std::max(frame.left, text_width(value_text(tick, chart.bytes)));
  frame.left += kTickLength + 4;
  append_axes(out, chart, frame, ticks);
  append_lines(out, chart, frame);
  append_marks(out, chart, frame);
  return out + "</svg>";
}

}  // namespace mezzo::train::detail
