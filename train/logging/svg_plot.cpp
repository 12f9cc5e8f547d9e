// The plot sink: one chart of the history.
#include "mezzo/train/svg_plot.h"

#include "mezzo/core/error.h"
#include "mezzo/train/logging/chart.h"
#include "mezzo/train/logging/page_file.h"
#include "mezzo/train/logging/run_history.h"

namespace mezzo::train {

SvgPlot::SvgPlot(std::string path, SvgPlotOptions options)
    : Sink(options.every),
      path_(std::move(path)),
      options_(std::move(options)),
      history_(std::make_unique<detail::RunHistory>()) {
  constexpr double kLeast = 200, kMost = 4000;
  const auto fits = [&](double size) { return size >= kLeast && size <= kMost; };
  if (!fits(options_.width) || !fits(options_.height)) {
    throw ValueError("SvgPlot", "a width and a height of 200 to 4000",
                     number_text(options_.width) + " and " + number_text(options_.height),
                     "the picture can be shown in any size");
  }
  if (!options_.clock) options_.clock = steady_seconds;
  detail::check_page_path(path_);
  saved_at_ = options_.clock() - options_.seconds;
}

SvgPlot::SvgPlot(SvgPlot&& other) noexcept = default;
SvgPlot& SvgPlot::operator=(SvgPlot&& other) noexcept = default;
SvgPlot::~SvgPlot() = default;

void SvgPlot::write(const LogRecord& record) {
  history_->add(record, options_.series);
  is_saved_ = false;
  if (options_.clock() - saved_at_ >= options_.seconds) save();
}

void SvgPlot::resume(std::int64_t step) {
  if (!is_started_) {
    if (auto saved = detail::RunHistory::load(path_)) *history_ = std::move(*saved);
    is_started_ = true;
  }
  history_->drop_after(step);
  is_saved_ = false;
}

void SvgPlot::close() {
  if (!is_saved_) save();
}

std::string SvgPlot::svg() const {
  detail::Chart chart{.title = options_.title, .lines = {}, .log_scale = options_.log_scale};
  chart.width = options_.width;
  chart.height = options_.height;
  for (const detail::RunHistory::Series& series : history_->series()) {
    if (detail::is_skip_flag(series.name)) {
      chart.marks = &series.points;
      chart.marks_name = "skipped step";
    } else if (!detail::is_skip_count(series.name)) {
      chart.lines.push_back({series.name, &series.points});
    }
  }
  if (chart.title.empty()) {
    for (const detail::ChartLine& line : chart.lines)
      chart.title += (chart.title.empty() ? "" : ", ") + line.name;
  }
  const std::string data = "<metadata " + std::string(detail::kDataBegin) + history_->saved() + "</metadata>";
  return detail::chart_svg(chart, true, data);
}

void SvgPlot::save() {
  // Also when it fails: the next try has the same time to wait.
  saved_at_ = options_.clock();
  if (!is_started_) detail::keep_old_page(path_);
  is_started_ = true;
  detail::write_page(path_, svg());
  is_saved_ = true;
}

}  // namespace mezzo::train
