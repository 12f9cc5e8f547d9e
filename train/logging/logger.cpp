// The logger: checks a call, reads its tensors at once, and keeps one sink's failure from the others.
#include "mezzo/train/logger.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/text/text_table.h"
#include "mezzo/core/warning.h"
#include "mezzo/nn/summary.h"
#include "mezzo/ops/ops.h"
#include "mezzo/train/logging/log_file.h"

namespace mezzo::train {

namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

/// Refuses what no file of any sink could hold.
void check_name(std::string_view op, std::string_view name) {
  const auto refuse = [&](const char* expected, const char* fix) {
    throw ValueError(op, expected, name.empty() ? "\"\"" : quote(name), fix);
  };
  if (name.empty()) refuse("a name", "say what is logged");
  if (std::any_of(name.begin(), name.end(), is_control)) {
    refuse("a name without control characters", "use letters, digits, '_' and '/'");
  }
  if (!is_valid_utf8(name)) refuse("a name in UTF-8", "use letters, digits, '_' and '/'");
  if (name == "step" || name == "time" || name == "text") {
    refuse("a name other than \"step\", \"time\" and \"text\"", "each record has these anyway");
  }
}

void check_entry(const LogEntry& entry) {
  check_name("Logger.log", entry.name);
  if (!entry.value.is_tensor()) return;
  if (!entry.value.tensor().defined()) {
    throw ValueError("Logger.log", "a number or a tensor of one element as " + quote(entry.name),
                     "an undefined tensor", "log it where it exists");
  }
  if (entry.value.tensor().numel() != 1) {
    throw ShapeError("Logger.log", "a number or a tensor of one element as " + quote(entry.name),
                     "one of shape " + to_string(entry.value.tensor().shape()),
                     "reduce it by mean() or norm(), or log a histogram");
  }
}

void check_entries(std::span<const LogEntry> entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    check_entry(entries[i]);
    for (std::size_t j = 0; j < i; ++j) {
      if (entries[i].name == entries[j].name) {
        throw ValueError("Logger.log", "each name once", quote(entries[i].name) + " twice",
                         "rename one of the values");
      }
    }
  }
}

/// The values of tensors of one element on one device, in one read.
std::vector<double> read_together(const std::vector<Tensor>& tensors) {
  const mezzo::detail::GradModeFrame no_grad(false);
  const NoInputHook no_autocast;
  std::vector<Tensor> wide;
  wide.reserve(tensors.size());
  for (const Tensor& tensor : tensors) wide.push_back(tensor.detach().reshape({}).to(DType::f64));
  return stack(wide).to_vector<double>();
}

/// The value of a CPU tensor of one element, whose read the caller counts.
double host_value(const Tensor& tensor) {
  return dispatch(tensor.dtype(), [&]<class T>(TypeTag<T>) {
    return static_cast<double>(*static_cast<const T*>(tensor.impl().data()));
  });
}

std::vector<std::shared_ptr<Sink>> pointers_of(std::span<const AnySink> sinks) {
  std::vector<std::shared_ptr<Sink>> result;
  for (const AnySink& any : sinks) {
    if (any.sink() == nullptr) throw ValueError("Logger", "sinks", "a null pointer", "leave it out");
    result.push_back(any.sink());
  }
  return result;
}

}  // namespace

Sink::Sink(std::int64_t every) : every_(every) {
  if (every >= 1) return;
  throw ValueError("Sink", "an interval `every` of at least 1 step", std::to_string(every),
                   "1 takes every record");
}

namespace detail {

FileSink::FileSink(std::string path, std::int64_t every)
    : Sink(every), file_(std::make_shared<LogFile>(std::move(path))) {}
void FileSink::close() { file_->sync(); }

}  // namespace detail

Logger::Logger(std::initializer_list<AnySink> sinks, LoggerOptions options)
    : sinks_(pointers_of({sinks.begin(), sinks.size()})), options_(std::move(options)) {}

Logger::Logger(const std::vector<AnySink>& sinks, LoggerOptions options)
    : sinks_(pointers_of(sinks)), options_(std::move(options)) {}

Logger::~Logger() {
  options_.errors = SinkErrors::warn;
  try {
    close();
  } catch (const std::exception& error) {
    // What is no IoError: a user's sink, or no memory. A destructor has no better way to say so.
    try {
      warn_once("logger_close", error.what());
    } catch (const std::exception&) {
    }
  }
}

double Logger::now() const {
  const double seconds =
      options_.wall_clock
          ? options_.wall_clock()
          : std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return std::round(seconds * 1000) / 1000;
}

template <class F>
void Logger::guarded(std::exception_ptr& error, const F& f) const {
  try {
    f();
  } catch (const IoError& problem) {
    if (options_.errors == SinkErrors::raise) {
      if (error == nullptr) error = std::current_exception();
    } else {
      warn_once("logger: " + problem.op(), problem.what());
    }
  }
}

template <class F>
void Logger::each(const F& f) {
  std::exception_ptr error;
  for (const std::shared_ptr<Sink>& sink : sinks_) guarded(error, [&] { f(*sink); });
  if (error != nullptr) std::rethrow_exception(error);
}

void Logger::check_step(std::string_view op, std::int64_t step) {
  if (step >= step_) return;
  throw ValueError(op, "a step of at least " + std::to_string(step_) + (step_ == 0 ? "" : ", the last one"),
                   std::to_string(step), "after loading a checkpoint call resume(step)");
}

void Logger::log(std::int64_t step, std::initializer_list<LogEntry> entries, LogOptions options) {
  log(step, std::span<const LogEntry>(entries.begin(), entries.size()), options);
}

void Logger::log(std::int64_t step, std::span<const LogEntry> entries, LogOptions options) {
  const Phase phase("logging");
  check_step("Logger.log", step);
  check_entries(entries);
  step_ = step;
  due_.clear();
  for (const std::shared_ptr<Sink>& sink : sinks_) {
    if (options.all_sinks || sink->is_due(step)) due_.push_back(sink.get());
  }
  keep_last(entries);
  if (due_.empty()) return;
  read(entries);
  const LogRecord record{step, now(), scalars_};
  std::exception_ptr error;
  for (Sink* const sink : due_) guarded(error, [&] { sink->write(record); });
  if (error != nullptr) std::rethrow_exception(error);
}

void Logger::keep_last(std::span<const LogEntry> entries) {
  const auto passes_over = [this](const std::shared_ptr<Sink>& sink) {
    return sink->wants_last() && std::find(due_.begin(), due_.end(), sink.get()) == due_.end();
  };
  const bool keeps = std::any_of(sinks_.begin(), sinks_.end(), passes_over);
  for (const LogEntry& entry : entries) {
    const auto found = std::find_if(last_.begin(), last_.end(),
                                    [&](const auto& named) { return named.first == entry.name; });
    if (!keeps) {
      if (found != last_.end()) last_.erase(found);
      continue;
    }
    // Without the graph that has made it, and what that holds.
    LogValue value = entry.value.is_tensor() ? LogValue(entry.value.tensor().detach()) : entry.value;
    if (found == last_.end())
      last_.emplace_back(entry.name, std::move(value));
    else
      found->second = std::move(value);
  }
}

void Logger::read(std::span<const LogEntry> entries) {
  scalars_.clear();
  bool host_is_read = false;
  std::vector<std::size_t> elsewhere;  // entries on devices
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const LogValue& value = entries[i].value;
    scalars_.push_back({entries[i].name, value.number(), value.dtype()});
    if (!value.is_tensor()) continue;
    if (!value.tensor().device().is_cpu()) {
      elsewhere.push_back(i);
      continue;
    }
    scalars_[i].value = host_value(value.tensor());
    host_is_read = true;
  }
  if (host_is_read) const HostRead read("Logger.log");
  while (!elsewhere.empty()) {
    const Device device = entries[elsewhere.front()].value.tensor().device();
    const auto end = std::stable_partition(elsewhere.begin(), elsewhere.end(), [&](std::size_t i) {
      return entries[i].value.tensor().device() == device;
    });
    std::vector<Tensor> tensors;
    for (auto i = elsewhere.begin(); i != end; ++i) tensors.push_back(entries[*i].value.tensor());
    const std::vector<double> values = read_together(tensors);
    for (std::size_t k = 0; k < values.size(); ++k) scalars_[elsewhere[k]].value = values[k];
    elsewhere.erase(elsewhere.begin(), end);
  }
}

void Logger::text(std::string_view name, const Value& value) {
  check_name("Logger.text", name);
  const LogText text{step_, now(), name, value};
  each([&](Sink& sink) { sink.write_text(text); });
}

void Logger::text(std::string_view name, const nn::Summary& summary) { text(name, summary_table(summary)); }

void Logger::histogram(std::int64_t step, std::string_view name, const Tensor& values) {
  check_step("Logger.histogram", step);
  check_name("Logger.histogram", name);
  if (!values.defined()) {
    throw ValueError("Logger.histogram", "a tensor as " + quote(name), "an undefined one",
                     "log it where it exists");
  }
  step_ = step;
  const auto wants = [](const std::shared_ptr<Sink>& sink) { return sink->wants_histograms(); };
  if (std::none_of(sinks_.begin(), sinks_.end(), wants)) return;
  const std::vector<double> elements = values.detach().to_vector<double>();
  const LogHistogram histogram{step, now(), name, elements};
  each([&](Sink& sink) {
    if (sink.wants_histograms()) sink.write_histogram(histogram);
  });
}

void Logger::resume(std::int64_t step) {
  if (step < 0) {
    throw ValueError("Logger.resume", "a step of at least 0", std::to_string(step),
                     "give the step of the checkpoint");
  }
  // What cannot be read back is no full disk: going on would destroy it.
  for (const std::shared_ptr<Sink>& sink : sinks_) sink->resume(step);
  step_ = step;
}

void Logger::close() {
  const auto last = std::exchange(last_, {});
  if (!last.empty()) {
    std::vector<LogEntry> entries;
    for (const auto& [name, value] : last) entries.push_back({name, value});
    read(entries);
    const LogRecord record{step_, now(), scalars_};
    each([&](Sink& sink) {
      if (sink.wants_last()) sink.write(record);
    });
  }
  each([](Sink& sink) { sink.close(); });
}

Value summary_table(const nn::Summary& summary) {
  Value::List rows;
  for (std::size_t i = 0; i < summary.rows.size(); ++i) {
    const nn::SummaryRow& row = summary.rows[i];
    if (row.depth > summary.depth) continue;
    Value::Map cells{{"Module", row.path.empty() ? row.type : row.path},
                     {"Type", row.type},
                     {"Output", row.output_shape ? to_string(*row.output_shape) : "--"},
                     {"Parameters", row.parameters == 0 ? "--" : grouped(row.parameters)}};
    if (i < summary.extra.size()) {
      for (std::size_t c = 0; c < summary.extra_titles.size(); ++c)
        cells.emplace_back(summary.extra_titles[c], summary.extra[i][c]);
    }
    rows.emplace_back(std::move(cells));
  }
  return rows;
}

}  // namespace mezzo::train
