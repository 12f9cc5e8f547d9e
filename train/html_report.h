// HTMLReport: a run as one page, rewritten while it goes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/train/sink.h"
#include "mezzo/train/throughput.h"

namespace mezzo::train {

namespace detail {
struct RunHistory;
}

struct HTMLReportOptions {
  std::string title = "Training";
  std::vector<std::string> log_scale = {};  ///< names of values whose charts have a log scale
  std::int64_t every = 1;                   ///< steps
  double seconds = 10;                      ///< at least between two rewrites; the end is always written
  bool refresh = true;                      ///< whether a browser loads the page again while the run goes on
  Clock clock = {};                         ///< default: steady_seconds
};

/// A page with the newest values, a chart per value, the newest image and histogram of each name, and the
/// texts of the run (Logger::text) as tables. Values of one name share a chart, whatever of train, val,
/// valid, validation, test and eval is before or behind: "loss" and "val_loss", "train/loss" and "val/loss".
/// Losses come first, then what is none of the following: "lr", names with "scale", "grad_norm",
/// "..per_second", "memory" and "..bytes" (shown as GB).
///
/// Skipped steps are marked in the chart of the loss scale, or else of the loss: log them as "skipped" (1 in
/// a step that was skipped) or "steps_skipped" (how many so far, GradScaler::steps_skipped). Values that are
/// not finite are red marks above a gap. A log scale leaves out values of 0 and below.
///
/// The page holds all it needs, the run as JSON and a script that shows it, light and dark as the browser
/// asks for, and stays below 1 MB for 20 values of any number of steps: of what lies within a pixel the mean,
/// least and largest value are drawn. Images take 8 MB at the most; others are left out, with a warning.
/// It is written all or nothing. An existing file is renamed to "<path>.bak", unless resume() goes on with
/// it; a pixel with steps behind the checkpoint is dropped then, and so are images and histograms. Throws:
/// IoError for a path that cannot be written, on resume for a file that no HTMLReport wrote.
class HTMLReport final : public Sink {
 public:
  explicit HTMLReport(std::string path, HTMLReportOptions options = {});
  void write(const LogRecord& record) override;
  void write_text(const LogText& text) override;
  [[nodiscard]] bool wants_pictures() const override { return true; }
  void write_histogram(const LogHistogram& histogram) override;
  void write_image(const LogImage& image) override;
  void resume(std::int64_t step) override;
  void close() override;
  /// The page as it would be written now.
  [[nodiscard]] std::string html() const;

 private:
  /// To the history, and saves it where that is due.
  template <class T>
  void add(const T& content);
  void save();

  std::string path_;
  HTMLReportOptions options_;
  std::shared_ptr<detail::RunHistory> history_;
  bool is_started_ = false, is_ended_ = false;
  double saved_at_;
};

}  // namespace mezzo::train
