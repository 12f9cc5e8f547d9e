// The few elements of SVG that the plot is made of, as text. Places are in units of the view box.
#pragma once

#include <string>
#include <string_view>

namespace scaler_lab::svg {

/// `text` as content of an element.
[[nodiscard]] std::string escaped(std::string_view text);

// Each is one element of a class (several separated by spaces; empty: none), ended by a line break.
/// `content` is escaped already.
[[nodiscard]] std::string text(double x, double y, std::string_view classes, std::string_view content);
/// Text that reads upwards, with its middle here.
[[nodiscard]] std::string upward_text(double x, double y, std::string_view classes, std::string_view content);
[[nodiscard]] std::string line(double x1, double y1, double x2, double y2, std::string_view classes);
/// `path` in the language of attribute d.
[[nodiscard]] std::string path(std::string_view classes, std::string_view path);
/// Two strokes that meet here.
[[nodiscard]] std::string cross(double x, double y, std::string_view classes);

/// A distance of ticks that is 1, 2 or 5 times a power of ten: at most `count` fit into `range` > 0.
[[nodiscard]] double tick_distance(double range, double count);

}  // namespace scaler_lab::svg
