// Rates over a ring of marks.
#include "mezzo/train/throughput.h"

#include <chrono>
#include <limits>
#include <string>

#include "mezzo/core/error.h"

namespace mezzo::train {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Throughput::Throughput(ThroughputOptions options)
    : clock_(options.clock ? std::move(options.clock) : Clock(steady_seconds)) {
  constexpr std::size_t kMostUpdates = 1'000'000;
  if (options.window < 1 || options.window > kMostUpdates) {
    throw ValueError("Throughput", "a window of 1 to " + std::to_string(kMostUpdates) + " updates",
                     std::to_string(options.window), "100 is usual");
  }
  marks_.resize(options.window + 1);
  begin_ = now();
}

void Throughput::update(const Work& work) {
  if (work.samples < 0 || work.tokens < 0 || work.steps < 0) {
    throw ValueError("Throughput.update", "counts of at least 0",
                     to_string(std::array{work.samples, work.tokens, work.steps}),
                     "give what was done since the last update");
  }
  if (paused_) resume();
  Mark mark = marks_[newest_];
  mark.seconds = now() - begin_;
  mark.work.samples += work.samples;
  mark.work.tokens += work.tokens;
  mark.work.steps += work.steps;
  newest_ = (newest_ + 1) % marks_.size();
  marks_[newest_] = mark;
  if (count_ < marks_.size()) ++count_;
}

void Throughput::pause() {
  if (paused_) return;
  paused_ = true;
  paused_at_ = now();
}

void Throughput::resume() {
  if (!paused_) return;
  paused_ = false;
  begin_ += now() - paused_at_;
}

void Throughput::reset() {
  marks_.assign(marks_.size(), {});
  newest_ = 0;
  count_ = 1;
  paused_ = false;
  begin_ = now();
}

double Throughput::rate(std::int64_t Work::*kind, const Mark& first) const {
  const Mark& last = marks_[newest_];
  const double seconds = last.seconds - first.seconds;
  if (!(seconds > 0)) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(last.work.*kind - first.work.*kind) / seconds;
}

double Throughput::samples_per_second() const { return rate(&Work::samples, oldest()); }
double Throughput::tokens_per_second() const { return rate(&Work::tokens, oldest()); }
double Throughput::steps_per_second() const { return rate(&Work::steps, oldest()); }
double Throughput::total_samples_per_second() const { return rate(&Work::samples, {}); }
double Throughput::total_tokens_per_second() const { return rate(&Work::tokens, {}); }
double Throughput::total_steps_per_second() const { return rate(&Work::steps, {}); }

}  // namespace mezzo::train
