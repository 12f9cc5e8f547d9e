// Sink: where a Logger's records go. One of a user's own needs one function:
//   struct Printer : train::Sink {
//     void write(const train::LogRecord& record) override {
//       for (const auto& [name, value, dtype] : record.values) std::cout << name << " " << value << "\n";
//     }
//   };
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "mezzo/core/dtype.h"
#include "mezzo/core/value.h"

namespace mezzo::train {

/// A value on the host. `dtype`: its tensor's, or f64: the precision worth writing down.
struct LogScalar {
  std::string_view name;
  double value = 0;
  DType dtype = DType::f64;
};
/// The content of one call of Logger::log. Views are valid during the call.
struct LogRecord {
  std::int64_t step = 0;
  double time = 0;  ///< seconds since 1970, to the millisecond
  std::span<const LogScalar> values;
};
/// The content of one call of Logger::text: a string, or lists and maps of such (a table).
struct LogText {
  std::int64_t step = 0;  ///< the last one logged
  double time = 0;
  std::string_view name;
  const Value& value;
};
/// The content of one call of Logger::histogram: all elements of a tensor.
struct LogHistogram {
  std::int64_t step = 0;
  double time = 0;
  std::string_view name;
  std::span<const double> values;
};

/// The content of one call of Logger::image, as the bytes of a PNG file.
struct LogImage {
  std::int64_t step = 0;
  double time = 0;
  std::string_view name;
  std::int64_t height = 0, width = 0, channels = 0;
  std::string_view png;
};

/// The options of a sink that has no others.
struct SinkOptions {
  std::int64_t every = 1;  ///< steps
};

/// A target that a Logger writes to. Functions are called by one thread at a time, with steps that do not go
/// back. The Logger's option `errors` decides about an IoError that they throw; all other exceptions reach
/// the caller of the Logger.
class Sink {
 public:
  virtual ~Sink() = default;

  /// Whether it wants the record of this step. Asked before any tensor is read: when no sink wants it, none
  /// is. Default: steps that `every` divides.
  [[nodiscard]] virtual bool is_due(std::int64_t step) { return step % every_ == 0; }
  virtual void write(const LogRecord& record) = 0;
  virtual void write_text(const LogText& /*text*/) {}
  /// Whether histograms and images are to be read back for it. Others leave them out.
  [[nodiscard]] virtual bool wants_pictures() const { return false; }
  virtual void write_histogram(const LogHistogram& /*histogram*/) {}
  virtual void write_image(const LogImage& /*image*/) {}
  /// Whether it wants at close() what it has passed over since its last record: the last value of each name.
  /// A tensor that was overwritten meanwhile has what it holds then.
  [[nodiscard]] virtual bool wants_last() const { return false; }
  /// The run goes on behind `step`: what was written with a larger one, by this process or one before, is to
  /// be forgotten.
  virtual void resume(std::int64_t /*step*/) {}
  /// Writes what is still held back. Called at the end, perhaps more than once.
  virtual void close() {}

 protected:
  /// Throws: ValueError for an interval below 1.
  explicit Sink(std::int64_t every = 1);
  Sink(Sink&&) = default;
  Sink& operator=(Sink&&) = default;

 private:
  std::int64_t every_;
};

namespace detail {

class LogFile;

/// Base of sinks that add to one file.
class FileSink : public Sink {
 public:
  void close() override;

 protected:
  FileSink(std::string path, std::int64_t every);
  [[nodiscard]] LogFile& file() const noexcept { return *file_; }

 private:
  std::shared_ptr<LogFile> file_;
};

}  // namespace detail

}  // namespace mezzo::train
