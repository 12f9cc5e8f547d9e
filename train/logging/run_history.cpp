// Histories, thinned, as JSON and back. What is read is checked: it may be any file.
#include "mezzo/train/logging/run_history.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/json.h"
#include "mezzo/train/logging/text_form.h"

namespace mezzo::train::detail {

namespace {

constexpr std::int64_t kVersion = 2, kMostPoints = std::int64_t{1} << 40;

/// `next` behind `bucket`, into it.
void merge_into(Bucket& bucket, const Bucket& next) {
  bucket.last = next.last;
  bucket.end = next.end;
  bucket.count += next.count;
  bucket.bad += next.bad;
  bucket.sum += next.sum;
  bucket.least = std::fmin(bucket.least, next.least);  // of a NaN and a number, the number
  bucket.largest = std::fmax(bucket.largest, next.largest);
}

Bucket bucket_of(std::int64_t step, double value) {
  const bool is_bad = !std::isfinite(value);
  const double finite = is_bad ? std::nan("") : value;
  return {step, value, step, 1, is_bad ? 1 : 0, is_bad ? 0 : value, finite, finite};
}

Value saved_bucket(const Bucket& b) {
  if (b.count == 1) return Value::list(b.begin, b.last);
  return Value::list(b.begin, b.last, b.end, b.count, b.bad, b.sum, b.least, b.largest);
}

Bucket bucket_from(const Value& saved) {
  if (saved.size() == 2) return bucket_of(saved[0].as_int(), saved[1].as_double());
  return {saved[0].as_int(), saved[1].as_double(), saved[2].as_int(),    saved[3].as_int(),
          saved[4].as_int(), saved[5].as_double(), saved[6].as_double(), saved[7].as_double()};
}

[[noreturn]] void refuse_saved(const std::string& op, const std::string& got) {
  throw IoError(op, "a report that this class wrote", got,
                "give the path of such a file, or move this one away");
}

Series& series_of(std::vector<Series>& all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Series& s) { return s.name == name; });
  return found != all.end() ? *found : all.emplace_back(Series{std::string(name)});
}

}  // namespace

void Series::add(const Bucket& bucket) {
  if (!buckets.empty() && buckets.back().count + bucket.count <= stride)
    return merge_into(buckets.back(), bucket);
  buckets.push_back(bucket);
  stride = std::max(stride, bucket.count);
  if (buckets.size() < kCapacity) return;
  for (std::size_t i = 0; i < kCapacity / 2; ++i) {
    buckets[i] = buckets[2 * i];
    merge_into(buckets[i], buckets[2 * i + 1]);
  }
  buckets.resize(kCapacity / 2);
  stride *= 2;
}

void RunHistory::add(const LogRecord& record) {
  if (started == 0) started = record.time;
  time = record.time;
  step = record.step;
  for (const auto& [name, value, dtype] : record.values) {
    Series& values = series_of(series, name);
    const bool grown = !values.buckets.empty() && value > values.buckets.back().last;
    values.add(bucket_of(step, value));
    const std::string_view part = name.substr(name.rfind('/') + 1);
    if (part == "steps_skipped" || part == "skipped_steps")
      series_of(series, "skipped").add(bucket_of(step, grown ? 1 : 0));
  }
}

void RunHistory::add(const LogText& text) {
  if (started == 0) started = text.time;
  time = text.time;
  Value shown = plain_text(text.value, 2);
  if (const std::optional<TextForm> table = table_of(text.value)) {
    shown = Value::list(table->titles);
    for (const std::vector<std::string>& row : table->rows) shown.push_back(row);
  }
  texts.set(std::string(text.name), std::move(shown));
}

void RunHistory::drop_after(std::int64_t last_step) {
  for (Series& s : series) std::erase_if(s.buckets, [&](const Bucket& b) { return b.end > last_step; });
  step = std::min(step, last_step);
}

Value RunHistory::saved() const {
  Value::Map all;
  for (const Series& s : series) {
    Value::List buckets(s.buckets.size());
    std::transform(s.buckets.begin(), s.buckets.end(), buckets.begin(), saved_bucket);
    all.emplace_back(s.name, std::move(buckets));
  }
  return Value::Map{{"mezzo_run", kVersion},    {"step", step},  {"started", started}, {"time", time},
                    {"series", std::move(all)}, {"texts", texts}};
}

RunHistory RunHistory::parse(std::string_view text, const std::string& op) {
  try {
    const Value saved = io::parse_json(text, {.max_depth = 128, .max_values = 2'000'000});
    if (saved["mezzo_run"] != Value(kVersion)) refuse_saved(op, "version " + saved["mezzo_run"].to_string());
    RunHistory run{{},
                   saved["texts"].as_map(),
                   saved["step"].as_int(),
                   saved["started"].as_double(),
                   saved["time"].as_double()};
    for (const auto& [name, buckets] : saved["series"].as_map()) {
      Series& to = series_of(run.series, name);
      std::int64_t step = 0;
      for (const Value& numbers : buckets.as_list()) {
        const Bucket b = bucket_from(numbers);
        const bool is_sane = b.begin >= step && b.end >= b.begin && b.count >= 1 && b.count <= kMostPoints;
        if (!is_sane || b.bad < 0 || b.bad > b.count)
          refuse_saved(op, "bucket " + quote(numbers.to_string()) + " behind step " + std::to_string(step));
        to.add(b);
        step = b.end;
      }
    }
    return run;
  } catch (const Error& error) {
    if (error.op() == op) throw;
    refuse_saved(op, error.got());
  }
}

std::optional<RunHistory> RunHistory::load(const std::string& path) {
  const std::string op = "read '" + path + "'";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > 16'000'000) refuse_saved(op, std::to_string(size) + " bytes");
  const std::vector<std::byte> bytes = io::read_file(path);
  if (bytes.empty()) return {};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t at = text.find(kDataBegin);
  if (at == std::string_view::npos) refuse_saved(op, "a file without a saved run");
  return parse(text.substr(0, text.find('<', at)).substr(at + kDataBegin.size()), op);
}

}  // namespace mezzo::train::detail
