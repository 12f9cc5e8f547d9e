// SvgPlot: chosen values over the steps of a run, as one picture that is rewritten while it goes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/train/sink.h"
#include "mezzo/train/throughput.h"

namespace mezzo::train {

namespace detail {
class RunHistory;
}

struct SvgPlotOptions {
  std::vector<std::string> series = {};  ///< names of values; default: all
  std::string title = {};                ///< default: the names
  bool log_scale = false;                ///< values of 0 and below are left out then
  std::int64_t every = 1;                ///< steps
  double seconds = 10;                   ///< at least between two rewrites; the end is always written
  double width = 640, height = 400;      ///< in 200 to 4000
  Clock clock = {};                      ///< default: steady_seconds
};

/// A picture in SVG of any number of steps in bounded size: what lies within a pixel is drawn from its least
/// to its largest value. Values that are not finite are red marks above a gap. Light or dark as the viewer
/// asks for. The file is written all or nothing. An existing one is renamed to "<path>.bak", unless resume()
/// goes on with it: the plot is saved in it, to the pixel, and a pixel with steps behind the checkpoint is
/// dropped. Throws: IoError for a path that cannot be written, on resume for a file that no SvgPlot wrote;
/// ValueError for sizes.
class SvgPlot final : public Sink {
 public:
  explicit SvgPlot(std::string path, SvgPlotOptions options = {});
  SvgPlot(SvgPlot&& other) noexcept;
  SvgPlot& operator=(SvgPlot&& other) noexcept;
  ~SvgPlot() override;
  void write(const LogRecord& record) override;
  void resume(std::int64_t step) override;
  void close() override;
  /// The picture as it would be written now.
  [[nodiscard]] std::string svg() const;

 private:
  void save();

  std::string path_;
  SvgPlotOptions options_;
  std::unique_ptr<detail::RunHistory> history_;
  bool is_started_ = false, is_saved_ = true;
  double saved_at_;
};

}  // namespace mezzo::train
