// Histories as JSON and back. What is read is checked: it may be any file.
#include "mezzo/train/logging/run_history.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/json.h"
#include "mezzo/train/logging/markup.h"
#include "mezzo/train/logging/number.h"

namespace mezzo::train::detail {

namespace {

constexpr std::size_t kMostBytes = 16'000'000, kMostValues = 2'000'000;
constexpr std::int64_t kVersion = 1;
// Numbers of a saved bucket: of one point, of points that are not finite, of others.
constexpr std::size_t kPointSize = 2, kBadSize = 4, kBucketSize = 13;

void append_point(std::string& out, const ThinPoint& point) {
  out += std::to_string(point.step) + ",";
  append_number(out, point.value, DType::f32);
}

/// A value within the range of f32, as saved.
ThinPoint narrow(ThinPoint point) {
  constexpr double kMost = std::numeric_limits<float>::max();
  point.value = std::clamp(point.value, -kMost, kMost);
  return point;
}

void append_bucket(std::string& out, const ThinBucket& bucket) {
  out += '[';
  if (bucket.count == 1 && bucket.bad == 0) {
    append_point(out, narrow(bucket.first));
  } else {
    for (const std::int64_t number : {bucket.begin, bucket.end, bucket.count})
      out += std::to_string(number) + ",";
    out += std::to_string(bucket.bad);
    if (bucket.has_values()) {
      for (const ThinPoint& point : {bucket.first, bucket.last, bucket.least, bucket.largest}) {
        out += ',';
        append_point(out, narrow(point));
      }
      out += ',';
      append_number(out, narrow({0, bucket.mean}).value, DType::f32);
    }
  }
  out += ']';
}

[[noreturn]] void refuse_saved(const std::string& op, const std::string& got) {
  throw IoError(op, "a plot or report that this class wrote", got,
                "give the path of such a file, or move this one away");
}

/// A point of a bucket: its step, and its value.
ThinPoint point_at(const Value& numbers, std::size_t at) {
  return {numbers[at].as_int(), numbers[at + 1].as_double()};
}

ThinBucket bucket_from(const Value& numbers, const std::string& op) {
  ThinBucket bucket;
  const std::size_t size = numbers.as_list().size();
  if (size == kPointSize) {
    const ThinPoint point = point_at(numbers, 0);
    bucket = {point.step, point.step, 1, 0, point, point, point, point, point.value};
  } else if (size == kBadSize || size == kBucketSize) {
    bucket.begin = numbers[0].as_int();
    bucket.end = numbers[1].as_int();
    bucket.count = numbers[2].as_int();
    bucket.bad = numbers[3].as_int();
    if (size == kBucketSize) {
      bucket.first = point_at(numbers, 4);
      bucket.last = point_at(numbers, 6);
      bucket.least = point_at(numbers, 8);
      bucket.largest = point_at(numbers, 10);
      bucket.mean = numbers[12].as_double();
    }
  }
  constexpr std::int64_t kMostPoints = std::int64_t{1} << 50;
  bool sane = bucket.begin >= 0 && bucket.begin <= bucket.end && bucket.count >= 1 &&
              bucket.count <= kMostPoints && bucket.bad >= 0 && bucket.bad <= bucket.count &&
              (bucket.has_values() == (size != kBadSize));
  const auto is_between = [&](double value) {
    return value >= bucket.least.value && value <= bucket.largest.value;
  };
  sane = sane && is_between(bucket.mean);
  for (const ThinPoint& point : {bucket.first, bucket.last, bucket.least, bucket.largest}) {
    const bool inside = point.step >= bucket.begin && point.step <= bucket.end &&
                        std::isfinite(point.value) && is_between(point.value);
    sane = sane && (!bucket.has_values() || inside);
  }
  if (!sane) refuse_saved(op, "a bucket " + quote(numbers.to_string()));
  return bucket;
}

}  // namespace

std::string_view last_part(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

bool is_skip_flag(std::string_view name) { return last_part(name) == "skipped"; }

bool is_skip_count(std::string_view name) {
  const std::string_view part = last_part(name);
  return part == "steps_skipped" || part == "skipped_steps";
}

RunHistory::Series& RunHistory::series_of(std::string_view name) {
  const auto found =
      std::find_if(series_.begin(), series_.end(), [&](const Series& series) { return series.name == name; });
  if (found != series_.end()) return *found;
  return series_.emplace_back(Series{std::string(name), ThinSeries()});
}

const RunHistory::Series* RunHistory::find(std::string_view name) const noexcept {
  const auto found =
      std::find_if(series_.begin(), series_.end(), [&](const Series& series) { return series.name == name; });
  return found == series_.end() ? nullptr : &*found;
}

void RunHistory::touch(double time) {
  if (started_ == 0) started_ = time;
  time_ = time;
}

void RunHistory::add(const LogRecord& record, const std::vector<std::string>& wanted) {
  touch(record.time);
  step_ = record.step;
  for (const LogScalar& value : record.values) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), value.name) == wanted.end()) continue;
    ThinSeries& points = series_of(value.name).points;
    const bool grown = !points.empty() && value.value > points.newest().value;
    points.add(record.step, value.value);
    if (is_skip_count(value.name)) series_of("skipped").points.add(record.step, grown ? 1 : 0);
  }
}

void RunHistory::set_text(std::string_view name, const Value& value, double time) {
  touch(time);
  const auto found =
      std::find_if(texts_.begin(), texts_.end(), [&](const auto& entry) { return entry.first == name; });
  if (found != texts_.end()) {
    found->second = value;
  } else {
    texts_.emplace_back(name, value);
  }
}

void RunHistory::drop_after(std::int64_t step) {
  for (Series& series : series_) series.points.drop_after(step);
  step_ = std::min(step_, step);
}

std::string RunHistory::saved() const {
  std::string out = "{\"mezzo_run\":" + std::to_string(kVersion) + ",\"step\":" + std::to_string(step_);
  out += ",\"started\":";
  append_number(out, started_, DType::f64);
  out += ",\"time\":";
  append_number(out, time_, DType::f64);
  out += ",\"series\":[";
  for (const Series& series : series_) {
    if (&series != &series_.front()) out += ',';
    out += "\n{\"name\":" + json_in_markup(quote(series.name, series.name.size())) + ",\"buckets\":[";
    for (const ThinBucket& bucket : series.points.buckets()) {
      if (&bucket != &series.points.buckets().front()) out += ',';
      append_bucket(out, bucket);
    }
    out += "]}";
  }
  out += "],\n\"texts\":";
  Value::List texts;
  for (const auto& [name, value] : texts_) texts.push_back(Value::list(name, value));
  return out + json_in_markup(Value(std::move(texts)).to_string()) + "}";
}

RunHistory RunHistory::parse(std::string_view text, const std::string& op) {
  RunHistory history;
  try {
    const Value value = io::parse_json(text, {.max_depth = 128, .max_values = kMostValues});
    if (value["mezzo_run"].as_int() != kVersion)
      refuse_saved(op, "version " + value["mezzo_run"].to_string());
    history.step_ = value["step"].as_int();
    history.started_ = value["started"].as_double();
    history.time_ = value["time"].as_double();
    for (const Value& entry : value["series"].as_list()) {
      const std::string& name = entry["name"].as_string();
      if (history.find(name) != nullptr) refuse_saved(op, "two series " + quote(name));
      ThinSeries& series = history.series_of(name).points;
      if (entry["buckets"].size() > ThinSeries::kCapacity) {
        refuse_saved(op, std::to_string(entry["buckets"].size()) + " buckets in " + quote(name));
      }
      for (const Value& numbers : entry["buckets"].as_list()) {
        const ThinBucket bucket = bucket_from(numbers, op);
        if (!series.empty() && series.buckets().back().end > bucket.begin)
          refuse_saved(op, "steps that go back");
        series.add(bucket);
      }
    }
    for (const Value& entry : value["texts"].as_list())
      history.set_text(entry[0].as_string(), entry[1], history.time_);
  } catch (const Error& error) {
    if (error.op() == op) throw;
    refuse_saved(op, error.got());
  }
  return history;
}

std::optional<RunHistory> RunHistory::load(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  io::InputFile file(path, "read");
  if (file.size() == 0) return {};
  if (file.size() > kMostBytes) refuse_saved(file.op(), std::to_string(file.size()) + " bytes");
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)));
  const std::size_t begin = text.find(kDataBegin);
  if (begin == std::string::npos) refuse_saved(file.op(), "a file without a saved run");
  std::string_view data(text);
  data.remove_prefix(begin + kDataBegin.size());
  return parse(data.substr(0, data.find('<')), file.op());
}

}  // namespace mezzo::train::detail
