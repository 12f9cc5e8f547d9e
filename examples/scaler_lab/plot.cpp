// The plot as SVG text: two panels with axes and curves, bands where an underflow was injected, and a mark
// at each skipped step. Below the plot the first eight skips are explained.
#include "plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report.h"
#include "svg.h"

namespace scaler_lab {

namespace {

// In units of the view box.
constexpr double kWidth = 960, kLeft = 84, kRight = 928;
constexpr double kLossTop = 124, kLossBottom = 344, kScaleTop = 376, kScaleBottom = 516;
constexpr double kNotesTop = 594, kNoteHeight = 20;
constexpr std::size_t kMostNotes = 8;

constexpr const char* kStyle = R"(<style>
text { font: 13px system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif; fill: #475467 }
.title { font-size: 20px; font-weight: 600; fill: #101828 }
.name { font-weight: 600; fill: #344054 }
.end { text-anchor: end }
.middle { text-anchor: middle }
.small { font-size: 11px }
.grid { stroke: #e4e7ec; stroke-width: 1 }
.axis { stroke: #98a2b3; stroke-width: 1 }
.loss { stroke: #175cd3; fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round }
.scale { stroke: #0e7a5f; fill: none; stroke-width: 2 }
.skip line { stroke: #d92d20; stroke-width: 1; stroke-dasharray: 3 3 }
.skip text { fill: #b42318; font-weight: 600 }
.cross { stroke: #d92d20; fill: none; stroke-width: 2.4; stroke-linecap: round }
.band { fill: #fdeccd }
</style>
)";

class Plot {
 public:
  explicit Plot(const std::vector<Row>& rows) : rows_(rows) {
    for (const Row& row : rows) {
      if (row.skipped) skipped_.push_back(&row);
      if (std::isfinite(row.loss)) highest_loss_ = std::max(highest_loss_, row.loss);
      lowest_ = std::min(lowest_, std::floor(std::log2(row.scale)) - 1);
      highest_ = std::max(highest_, std::ceil(std::log2(row.scale)) + 1);
    }
    if (highest_loss_ <= 0) highest_loss_ = 1;  // no loss was finite
    loss_ticks_ = svg::tick_distance(highest_loss_, 5);
    highest_loss_ = std::ceil(highest_loss_ / loss_ticks_) * loss_ticks_;
  }

  [[nodiscard]] std::string text() const {
    const std::size_t notes = std::min(skipped_.size(), kMostNotes + 1);
    const double height = kNotesTop + (notes == 0 ? 0 : kNoteHeight * static_cast<double>(notes) + 24);
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\">\n<title>Loss and scale over {2} steps, {3} skipped</title>\n",
        kWidth, height, rows_.size(), skipped_.size());
    out += kStyle;
    out += fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#ffffff\"/>\n", kWidth, height);
    return out + heading() + underflows() + loss_axis() + scale_axis() + step_axis() + curves() + skips() +
           notes_on_skips() + "</svg>\n";
  }

 private:
  [[nodiscard]] double x(double step) const {
    return kLeft + (step - 0.5) / static_cast<double>(rows_.size()) * (kRight - kLeft);
  }
  [[nodiscard]] double loss_y(double loss) const {
    return kLossBottom - loss / highest_loss_ * (kLossBottom - kLossTop);
  }
  [[nodiscard]] double scale_y(double exponent) const {
    return kScaleBottom - (exponent - lowest_) / (highest_ - lowest_) * (kScaleBottom - kScaleTop);
  }

  /// Title and legend.
  [[nodiscard]] std::string heading() const {
    std::string out = svg::text(kLeft, 42, "title", "Loss and scale of a training in f16");
    out += svg::text(kLeft, 64, "",
                     fmt::format("{} of {} steps skipped by the GradScaler", skipped_.size(), rows_.size()));
    constexpr double middle = 90, base = 94.5;
    out += svg::line(kLeft, middle, kLeft + 26, middle, "loss") + svg::text(kLeft + 34, base, "", "loss");
    out += svg::line(kLeft + 92, middle, kLeft + 118, middle, "scale");
    out += svg::text(kLeft + 126, base, "", "scale");
    out += svg::cross(kLeft + 194, middle, "cross") + svg::text(kLeft + 208, base, "", "skipped step");
    out += svg::path("band", fmt::format("M{:.1f} {:.1f}h26v16h-26z", kLeft + 322, middle - 8));
    return out + svg::text(kLeft + 356, base, "", "underflow injected");
  }

  /// A band for each stretch of steps with an underflow.
  [[nodiscard]] std::string underflows() const {
    std::string out;
    for (std::size_t begin = 0; begin < rows_.size(); ++begin) {
      if (!rows_[begin].zeros) continue;
      std::size_t end = begin;
      while (end + 1 < rows_.size() && rows_[end + 1].zeros) ++end;
      const auto first = static_cast<double>(rows_[begin].step), last = static_cast<double>(rows_[end].step);
      out += fmt::format("<g class=\"underflow\"><title>underflow in steps {} to {}</title>\n", first, last);
      out += svg::path("band", fmt::format("M{:.1f} {:.1f}H{:.1f}V{:.1f}H{:.1f}z", x(first - 0.5), kLossTop,
                                           x(last + 0.5), kScaleBottom, x(first - 0.5)));
      out += "</g>\n";
      begin = end;
    }
    return out;
  }

  /// What the axes of both panels have.
  [[nodiscard]] static std::string frame(double top, double bottom, std::string_view name) {
    return svg::line(kLeft, top, kLeft, bottom, "axis") + svg::line(kLeft, bottom, kRight, bottom, "axis") +
           svg::upward_text(28, (top + bottom) / 2, "middle name", name);
  }

  [[nodiscard]] std::string loss_axis() const {
    std::string out;
    for (int i = 0; i * loss_ticks_ <= highest_loss_ * 1.001; ++i) {
      const double y = loss_y(i * loss_ticks_);
      out += svg::line(kLeft, y, kRight, y, "grid");
      out += svg::text(kLeft - 10, y + 4.5, "end", fmt::format("{:.6g}", i * loss_ticks_));
    }
    return out + frame(kLossTop, kLossBottom, "loss");
  }

  [[nodiscard]] std::string scale_axis() const {
    std::string out;
    const double distance = std::ceil((highest_ - lowest_) / 6);
    for (double exponent = lowest_; exponent <= highest_; exponent += distance) {
      const double y = scale_y(exponent);
      out += svg::line(kLeft, y, kRight, y, "grid");
      out += svg::text(kLeft - 25, y + 5.5, "end", "2");
      out += svg::text(kLeft - 24, y, "small", fmt::format("{:.0f}", exponent));
    }
    return out + frame(kScaleTop, kScaleBottom, "scale (log2)");
  }

  [[nodiscard]] std::string step_axis() const {
    std::string out;
    const auto last = static_cast<double>(rows_.size());
    const double distance = std::max(1.0, svg::tick_distance(last, 10));
    for (double step = distance; step <= last; step += distance) {
      out += svg::line(x(step), kScaleBottom, x(step), kScaleBottom + 5, "axis");
      out += svg::text(x(step), kScaleBottom + 21, "middle", fmt::format("{:.0f}", step));
    }
    return out + svg::text((kLeft + kRight) / 2, kScaleBottom + 44, "middle name", "step");
  }

  /// A loss that is not finite leaves a gap; the scale is constant during a step.
  [[nodiscard]] std::string curves() const {
    std::string loss, scale;
    bool drawing = false;
    for (const Row& row : rows_) {
      const auto step = static_cast<double>(row.step);
      const bool finite = std::isfinite(row.loss);
      if (finite) loss += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x(step), loss_y(row.loss));
      if (finite && !drawing) loss += "h0";  // with round ends: a dot, when it stays alone
      drawing = finite;
      scale += fmt::format("{}{:.1f} {:.1f}H{:.1f}", scale.empty() ? "M" : "L", x(step - 0.5),
                           scale_y(std::log2(row.scale)), x(step + 0.5));
    }
    return svg::path("loss", loss) + svg::path("scale", scale);
  }

  [[nodiscard]] static std::string note_on(const Row& row) {
    return svg::escaped(op_text(row) + "; first parameter " + row.parameter);
  }

  [[nodiscard]] std::string skips() const {
    std::string out;
    double labelled = 0;
    for (const Row* row : skipped_) {
      const double at = x(static_cast<double>(row->step));
      out += fmt::format("<g class=\"skip\"><title>step {} skipped: {}</title>\n", row->step, note_on(*row));
      out += svg::line(at, kLossTop, at, kScaleBottom, "");
      out += svg::cross(at, scale_y(std::log2(row->scale)), "cross");
      if (at - labelled >= 28) {  // else its number would lie on the one before
        out += svg::text(at, kLossTop - 6, "middle small", std::to_string(row->step));
        labelled = at;
      }
      out += "</g>\n";
    }
    return out;
  }

  [[nodiscard]] std::string notes_on_skips() const {
    if (skipped_.empty()) return {};
    std::string out = svg::text(kLeft, kNotesTop, "name", "What went wrong first in skipped steps");
    double y = kNotesTop;
    for (std::size_t i = 0; i < std::min(skipped_.size(), kMostNotes); ++i) {
      y += kNoteHeight;
      out += svg::text(kLeft + 28, y, "end", std::to_string(skipped_[i]->step));
      out += svg::text(kLeft + 44, y, "", note_on(*skipped_[i]));
    }
    if (skipped_.size() <= kMostNotes) return out;
    const std::string more = fmt::format("and {} more", skipped_.size() - kMostNotes);
    return out + svg::text(kLeft + 44, y + kNoteHeight, "", more);
  }

  const std::vector<Row>& rows_;
  std::vector<const Row*> skipped_;
  double highest_loss_ = 0, loss_ticks_ = 1;  ///< end of the loss axis and distance of its ticks
  double lowest_ = 1e9, highest_ = -1e9;      ///< ends of the scale axis, as exponents of 2
};

}  // namespace

std::string plot(const std::vector<Row>& rows) { return Plot(rows).text(); }

}  // namespace scaler_lab
