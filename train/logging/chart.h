// Charts as SVG: lines over steps, with round ticks, for light and dark pages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mezzo/train/logging/thin_series.h"

namespace mezzo::train::detail {

struct ChartLine {
  std::string name;
  const ThinSeries* points = nullptr;
};
struct Chart {
  std::string title;
  std::vector<ChartLine> lines;
  bool log_scale = false;  ///< values of 0 and below are left out
  bool bytes = false;      ///< numbers of bytes: 1.5 GB
  /// Steps of this one's values other than 0 are marked, and named in the legend.
  const ThinSeries* marks = nullptr;
  std::string marks_name = {};
  double width = 400, height = 250;
};

/// An <svg> element. `data` is put into it, for a file of its own: with the name space, its style and a
/// background; else it is for within a page that has chart_style().
[[nodiscard]] std::string chart_svg(const Chart& chart, bool standalone, std::string_view data = {});
/// CSS of charts, light and dark.
[[nodiscard]] std::string_view chart_style();
/// A value as ticks and captions write it.
[[nodiscard]] std::string value_text(double value, bool bytes);

}  // namespace mezzo::train::detail
