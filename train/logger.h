// Logger: passes values and texts of a training on to any number of sinks.
//   train::Logger logger({train::CSVSink("log.csv"), train::ProgressBar({.total = steps})});
//   logger.text("config", Value::Map{{"lr", 0.1}, {"batch_size", 32}});
//   logger.log(step, {{"loss", loss}, {"lr", optimizer.lr()}});
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/core/value.h"
#include "mezzo/train/sink.h"
#include "mezzo/train/throughput.h"

namespace mezzo::nn {
struct Summary;
}

namespace mezzo::train {

/// A number, or a tensor of one element whose value is read when a sink asks for it.
class LogValue {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> LogValue(T number)
  noexcept
      : number_(static_cast<double>(number)), dtype_(std::is_same_v<T, float> ? DType::f32 : DType::f64) {}
  LogValue(Tensor tensor) noexcept : tensor_(std::move(tensor)), is_tensor_(true) {}

  [[nodiscard]] bool is_tensor() const noexcept { return is_tensor_; }
  [[nodiscard]] const Tensor& tensor() const noexcept { return tensor_; }
  [[nodiscard]] double number() const noexcept { return number_; }
  [[nodiscard]] DType dtype() const { return is_tensor_ ? tensor_.dtype() : dtype_; }

 private:
  double number_ = 0;
  Tensor tensor_;
  DType dtype_ = DType::f64;
  bool is_tensor_ = false;
};
struct LogEntry {
  std::string_view name;
  LogValue value;
};

/// A sink given as an expression, CSVSink("log.csv"), which moves into the logger; or one that the program
/// keeps a pointer to.
class AnySink {
 public:
  template <std::derived_from<Sink> S>
  AnySink(S sink) : sink_(std::make_shared<S>(std::move(sink))) {}
  template <std::derived_from<Sink> S>
  AnySink(std::shared_ptr<S> sink) : sink_(std::move(sink)) {}
  [[nodiscard]] const std::shared_ptr<Sink>& sink() const noexcept { return sink_; }

 private:
  std::shared_ptr<Sink> sink_;
};

/// The reaction to a sink that cannot write (an IoError: a full disk, say): one warning per file, and the
/// next record is tried again; or the error is thrown, once all other sinks have had the record.
enum class SinkErrors : std::uint8_t { warn, raise };

struct LoggerOptions {
  SinkErrors errors = SinkErrors::warn;
  Clock wall_clock = {};  ///< seconds since 1970; default: the system's
};
struct LogOptions {
  bool all_sinks = false;  ///< whatever their intervals say: for the results of a validation, say
};

/// Takes records and passes them on. A call whose step no sink wants (their `every`) reads nothing and costs
/// less than 2 us; otherwise all tensors of a call are read at once, one host read per device. Not
/// thread-safe. The end of a Logger closes its sinks.
///
/// Steps may repeat and never go back. A run that goes on from a checkpoint says so by resume(step) before it
/// logs: what sinks hold of later steps is dropped, so no step is there twice.
class Logger : mezzo::detail::NoCopy {
 public:
  /// Throws: ValueError for a null pointer.
  explicit Logger(std::initializer_list<AnySink> sinks, LoggerOptions options = {});
  explicit Logger(const std::vector<AnySink>& sinks, LoggerOptions options = {});
  /// close(), whose errors are warnings here.
  ~Logger();

  /// Values of a step. A tensor is read during the call or not at all, so it may be overwritten afterwards.
  /// Throws: ValueError for a step below the last one or 0, for names that are empty, twice there, not UTF-8,
  /// have control characters, or are "step", "time" or "text", and for undefined tensors; ShapeError for a
  /// tensor of several elements. Nothing is written then.
  void log(std::int64_t step, std::initializer_list<LogEntry> entries, LogOptions options = {});
  void log(std::int64_t step, std::span<const LogEntry> entries, LogOptions options = {});
  /// A text, a configuration (a map) or a table (a list of maps with the same keys), for all sinks that show
  /// such.
  void text(std::string_view name, const Value& value);
  /// A model's summary (nn/summary.h, amp/summary.h) as a table.
  void text(std::string_view name, const nn::Summary& summary);
  /// How the elements of a tensor are distributed. Read back, all of it, only where a sink takes histograms.
  void histogram(std::int64_t step, std::string_view name, const Tensor& values);
  /// Several, in one read per dtype and 2^24 elements where those of one dtype are neighbours. Throws, before
  /// anything is written: ValueError for a step below the last one, names that log() refuses, and undefined
  /// tensors.
  void histograms(std::int64_t step, const std::vector<std::pair<std::string, Tensor>>& named);
  /// An image, or a batch of them as one: rows of 8, with black lines of 2 pixels around each. Reals are
  /// limited to [0, 1], multiplied by 255 and rounded down. Without libpng a warning, or an error, as
  /// `errors` says of what cannot be written.
  /// Shapes: [H, W], [C, H, W] or [N, C, H, W] of 1, 3 or 4 channels: gray, RGB, RGBA. Dtypes: u8, floating.
  /// Throws, before anything is written: what histograms() throws, ShapeError, DTypeError; where a sink takes
  /// images and reads them, ValueError for NaN and infinities. Source: torch's SummaryWriter.add_image,
  /// torchvision.utils.make_grid.
  void image(std::int64_t step, std::string_view name, const Tensor& image);

  /// The run goes on behind `step`, the last one that counts. Throws: ValueError for a negative one; IoError
  /// for files that the sinks cannot have written.
  void resume(std::int64_t step);
  /// Gives the sinks that want them the last values, and closes all; logging may go on. Throws as `errors`
  /// says.
  void close();

 private:
  void check_step(std::string_view op, std::int64_t step);
  void read(std::span<const LogEntry> entries);
  /// Keeps what a sink that wants the last values has passed over.
  void keep_last(std::span<const LogEntry> entries);
  template <class F>
  void each(const F& f);
  template <class F>
  void guarded(std::exception_ptr& error, const F& f) const;
  [[nodiscard]] double now() const;

  std::vector<std::shared_ptr<Sink>> sinks_;
  LoggerOptions options_;
  std::int64_t step_ = 0;
  std::vector<std::pair<std::string, LogValue>> last_;  ///< passed over by sinks that want the last values
  // Of the call under way, kept for their memory.
  std::vector<Sink*> due_;
  std::vector<LogScalar> scalars_;
};

/// A model's summary as a list of maps, one per row: what Logger::text makes of it.
[[nodiscard]] Value summary_table(const nn::Summary& summary);

}  // namespace mezzo::train
