// SVG elements as formatted strings, XML escaping of text, and round distances between axis ticks.
#include "svg.h"

#include <fmt/format.h>

#include <cmath>

namespace scaler_lab::svg {

namespace {

std::string class_of(std::string_view classes) {
  return classes.empty() ? std::string() : fmt::format(" class=\"{}\"", classes);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else
      result += c;
  }
  return result;
}

std::string text(double x, double y, std::string_view classes, std::string_view content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, class_of(classes), content);
}

std::string upward_text(double x, double y, std::string_view classes, std::string_view content) {
  return fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\"{}>{}</text>\n", x, y,
                     class_of(classes), content);
}

std::string line(double x1, double y1, double x2, double y2, std::string_view classes) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"{}/>\n", x1, y1, x2, y2,
                     class_of(classes));
}

std::string path(std::string_view classes, std::string_view path) {
  return fmt::format("<path d=\"{}\"{}/>\n", path, class_of(classes));
}

std::string cross(double x, double y, std::string_view classes) {
  constexpr double reach = 5;
  return path(classes, fmt::format("M{0:.1f} {2:.1f}L{1:.1f} {3:.1f}M{0:.1f} {3:.1f}L{1:.1f} {2:.1f}",
                                   x - reach, x + reach, y - reach, y + reach));
}

double tick_distance(double range, double count) {
  const double power = std::pow(10.0, std::floor(std::log10(range / count)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (factor * power) <= count) return factor * power;
  }
  return 10 * power;
}

}  // namespace scaler_lab::svg
