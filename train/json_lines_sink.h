// JSONLinesSink: records as one JSON object per line.
#pragma once

#include <string>

#include "mezzo/train/sink.h"

namespace mezzo::train {

using JSONLinesSinkOptions = SinkOptions;

/// {"step":10,"time":1764063092.123,"loss":0.25} for a record, {"step":0,"time":..,"text":{"config":{..}}}
/// for a text. Numbers are in shortest form; what JSON has no numbers for are the strings "nan", "inf" and
/// "-inf", which Value::as_double understands. Each line is with the system when write() returns. Histograms
/// and images are left out. Existing files, resume() and errors: as for CSVSink.
class JSONLinesSink final : public detail::FileSink {
 public:
  explicit JSONLinesSink(std::string path, JSONLinesSinkOptions options = {});
  void write(const LogRecord& record) override;
  void write_text(const LogText& text) override;
  void resume(std::int64_t step) override;

 private:
  void add_line();

  std::string line_;
};

}  // namespace mezzo::train
