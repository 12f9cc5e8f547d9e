// The logger: checks a call, reads its tensors at once, and keeps one sink's failure from the others.
#include "mezzo/train/logger.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/text/text_table.h"
#include "mezzo/core/warning.h"
#include "mezzo/data/image/image.h"
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
  const PlainOps plain;
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

/// Refuses what is no histogram or image of any sink.
void check_picture(std::string_view op, std::string_view name, const Tensor& tensor) {
  check_name(op, name);
  if (tensor.defined()) return;
  throw ValueError(op, "a tensor as " + quote(name), "an undefined one", "log it where it exists");
}

using NamedTensor = std::vector<std::pair<std::string, Tensor>>::const_iterator;

/// The elements of the next tensors, in one read: of one dtype and device, and no more than fit into memory
/// easily. `next` goes behind them.
std::vector<double> read_some(NamedTensor& next, NamedTensor end) {
  constexpr std::int64_t kMostElements = 1 << 24;
  const PlainOps plain;
  std::vector<Tensor> flat;
  for (std::int64_t count = 0; next != end; ++next) {
    const Tensor tensor = flatten(next->second.detach());
    count += tensor.numel();
    const bool fits = flat.empty() || (tensor.dtype() == flat[0].dtype() &&
                                       tensor.device() == flat[0].device() && count <= kMostElements);
    if (!fits) break;
    flat.push_back(tensor);
  }
  return (flat.size() == 1 ? flat[0] : cat(flat)).to_vector<double>();
}

void check_image(std::string_view name, const Tensor& image) {
  const std::int64_t dims = image.dim(), channels = dims == 2 ? 1 : dims > 2 ? image.size(-3) : 0;
  if (dims > 4 || image.numel() == 0 || (channels != 1 && channels != 3 && channels != 4)) {
    throw ShapeError(
        "Logger.image",
        "an image [H, W] or [C, H, W], or a batch [N, C, H, W], of 1, 3 or 4 channels as " + quote(name),
        to_string(image.shape()), "permute({2, 0, 1}) brings channels to the front");
  }
  if (image.dtype() == DType::u8 || (is_floating(image.dtype()) && !is_float8(image.dtype()))) return;
  throw DTypeError("Logger.image", "u8 from 0 to 255 or reals from 0 to 1 as " + quote(name),
                   std::string(to_string(image.dtype())), "convert it with to(DType::f32)");
}

/// A batch of images as one image.
Tensor grid_of(const Tensor& batch) {
  constexpr std::int64_t kMostColumns = 8, kLine = 2;
  if (batch.size(0) == 1) return select(batch, 0, 0);
  const std::int64_t images = batch.size(0), columns = std::min(images, kMostColumns);
  const std::int64_t height = batch.size(2) + kLine, width = batch.size(3) + kLine;
  Tensor grid =
      zeros({batch.size(1), (images + columns - 1) / columns * height + kLine, columns * width + kLine},
            {.dtype = batch.dtype(), .device = batch.device()});
  for (std::int64_t i = 0; i < images; ++i) {
    Tensor place = narrow(grid, 1, i / columns * height + kLine, batch.size(2));
    place = narrow(place, 2, i % columns * width + kLine, batch.size(3));
    place.copy_(select(batch, 0, i));
  }
  return grid;
}

/// [C, H, W] of u8.
Tensor pixels_of(std::string_view name, const Tensor& image) {
  const PlainOps plain;
  Tensor pixels = image.detach();
  if (image.dtype() != DType::u8) {
    if (!all(isfinite(pixels)).item<bool>()) {
      throw ValueError("Logger.image", "finite numbers as " + quote(name), "NaN or an infinity",
                       "nan_to_num() takes them out");
    }
    pixels = clamp(pixels.to(DType::f32) * 255, 0, 255).to(DType::u8);
  }
  if (pixels.dim() == 2) return unsqueeze(pixels, 0);
  return pixels.dim() == 3 ? pixels : grid_of(pixels);
}

bool wants_pictures(const std::vector<std::shared_ptr<Sink>>& sinks) {
  return std::any_of(sinks.begin(), sinks.end(), [](const auto& sink) { return sink->wants_pictures(); });
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
  histograms(step, {{std::string(name), values}});
}

void Logger::histograms(std::int64_t step, const std::vector<std::pair<std::string, Tensor>>& named) {
  check_step("Logger.histogram", step);
  for (const auto& [name, values] : named) check_picture("Logger.histogram", name, values);
  step_ = step;
  if (!wants_pictures(sinks_)) return;
  std::exception_ptr error;
  for (auto next = named.begin(); next != named.end();) {
    auto named_one = next;
    const std::vector<double> elements = read_some(next, named.end());
    for (std::span<const double> rest = elements; named_one != next; ++named_one) {
      const auto size = static_cast<std::size_t>(named_one->second.numel());
      const LogHistogram histogram{step, now(), named_one->first, rest.first(size)};
      rest = rest.subspan(size);
      for (const auto& sink : sinks_) guarded(error, [&] { sink->write_histogram(histogram); });
    }
  }
  if (error != nullptr) std::rethrow_exception(error);
}

void Logger::image(std::int64_t step, std::string_view name, const Tensor& image) {
  check_step("Logger.image", step);
  check_picture("Logger.image", name, image);
  check_image(name, image);
  const bool is_shown = wants_pictures(sinks_);
  const Tensor pixels = is_shown ? pixels_of(name, image) : Tensor();
  step_ = step;
  if (!is_shown) return;
  std::vector<std::uint8_t> png;
  each([&](Sink& sink) {
    if (!sink.wants_pictures()) return;
    if (png.empty()) png = data::encode_png(pixels);
    const std::string_view bytes(reinterpret_cast<const char*>(png.data()), png.size());
    sink.write_image({step, now(), name, pixels.size(1), pixels.size(2), pixels.size(0), bytes});
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
