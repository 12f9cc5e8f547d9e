// CSVSink: records as a table that spreadsheets, pandas and gnuplot read.
#pragma once

#include <string>
#include <vector>

#include "mezzo/train/sink.h"

namespace mezzo::train {

using CSVSinkOptions = SinkOptions;

/// One line per record: step, time (seconds since 1970), then a column per name in the order of the first
/// record. Numbers are in shortest form; "nan", "inf" and "-inf" as pandas reads them; nothing where a record
/// has no such value. A name that comes later becomes a new last column: the file is rewritten then, all or
/// nothing, with nothing in that column before. Names with commas or quotes are quoted. Each line is with the
/// system when write() returns. Texts, histograms and images are left out.
///
/// An existing file: when the run logs without resume(), it is renamed to "<path>.bak" first. resume(step)
/// keeps its lines up to that step and goes on behind them.
/// Throws: IoError for a path that cannot be written; on resume for a file that is none of CSVSink's, with
/// the line, which then stays as it is.
class CSVSink final : public detail::FileSink {
 public:
  explicit CSVSink(std::string path, CSVSinkOptions options = {});
  void write(const LogRecord& record) override;
  void resume(std::int64_t step) override;

 private:
  [[nodiscard]] std::string header() const;
  void add_columns(const LogRecord& record);

  std::vector<std::string> columns_;  // without step and time
  bool has_header_ = false;
  std::string line_;
  std::vector<const LogScalar*> cells_;
};

}  // namespace mezzo::train
