// Histories, thinned, as JSON and back. What is read is checked: it may be any file.
#include "mezzo/train/logging/run_history.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
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

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Source: RFC 4648.
std::string base64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = i; k < i + 3; ++k)
      bits = bits << 8U | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : kBase64[bits >> (18 - 6 * k) & 63U];
  }
  return text;
}

bool is_picture(const Value& saved) {
  if (saved[0].as_int() < 0) return false;
  if (saved.size() == 2)
    return saved[1].as_string().find_first_not_of(std::string(kBase64) + "=") == std::string::npos;
  const Value::List& counts = saved[4].as_list();
  return saved[1].is_int() && saved[2].is_number() && saved[3].is_number() &&
         std::all_of(counts.begin(), counts.end(), [](const Value& count) { return count.is_int(); });
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

void RunHistory::note_time(double seconds) {
  if (started == 0) started = seconds;
  time = seconds;
}

void RunHistory::add(const LogRecord& record) {
  note_time(record.time);
  step = record.step;
  for (const auto& [name, value, dtype] : record.values) {
    Series& values = series_of(series, name);
    // Of a first record: where all steps were skipped, its own was.
    const auto most = static_cast<double>(std::max<std::int64_t>(step - 1, 0));
    const bool grown = value > (values.buckets.empty() ? most : values.buckets.back().last);
    values.add(bucket_of(step, value));
    const std::string_view part = name.substr(name.rfind('/') + 1);
    if (part == "steps_skipped" || part == "skipped_steps")
      series_of(series, "skipped").add(bucket_of(step, grown ? 1 : 0));
  }
}

void RunHistory::add(const LogText& text) {
  note_time(text.time);
  Value shown = plain_text(text.value, 2);
  if (const std::optional<TextForm> table = table_of(text.value)) {
    shown = Value::list(table->titles);
    for (const std::vector<std::string>& row : table->rows) shown.push_back(row);
  }
  texts.set(std::string(text.name), std::move(shown));
}

void RunHistory::add(const LogHistogram& histogram) {
  note_time(histogram.time);
  std::vector<double> halves;  // whose differences are finite
  for (const double value : histogram.values) {
    if (std::isfinite(value)) halves.push_back(value / 2);
  }
  const auto bad = static_cast<std::int64_t>(histogram.values.size() - halves.size());
  const auto [low, high] = std::minmax_element(halves.begin(), halves.end());
  std::vector<std::int64_t> counts(halves.empty() ? 0 : kBins);
  for (const double half : halves) {
    const double place = *high > *low ? (half - *low) / (*high - *low) * kBins : 0;
    ++counts[std::min(static_cast<std::size_t>(place), kBins - 1)];
  }
  const double least = halves.empty() ? 0 : 2 * *low, largest = halves.empty() ? 0 : 2 * *high;
  pictures.set(std::string(histogram.name), Value::list(histogram.step, bad, least, largest, counts));
}

void RunHistory::add(const LogImage& image) {
  note_time(image.time);
  const std::string name(image.name), text = base64(image.png);
  std::size_t bytes = text.size();
  for (const auto& [known, picture] : pictures.as_map()) {
    if (known != name && picture.size() == 2) bytes += picture[1].as_string().size();
  }
  if (bytes <= kMostImageBytes) return static_cast<void>(pictures.set(name, Value::list(image.step, text)));
  warn_once("html_report_images", "HTMLReport: expected images of at most 8 MB together, got more, so " +
                                      quote(name) + " is left out; log fewer names or smaller images");
}

void RunHistory::drop_after(std::int64_t last_step) {
  Value::Map kept = pictures.as_map();
  std::erase_if(kept, [&](const auto& named) { return named.second[0].as_int() > last_step; });
  pictures = std::move(kept);
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
  return Value::Map{{"mezzo_run", kVersion},    {"step", step},   {"started", started},  {"time", time},
                    {"series", std::move(all)}, {"texts", texts}, {"pictures", pictures}};
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
    if (const Value* const pictures = saved.find("pictures")) run.pictures = pictures->as_map();  // new
    for (const auto& [name, picture] : run.pictures.as_map()) {
      if (!is_picture(picture)) refuse_saved(op, "picture " + quote(name));
    }
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
