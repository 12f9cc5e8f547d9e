// How fast a training runs, and how much memory it takes.
//   train::Throughput throughput;
//   for (...) { ...; throughput.update({.samples = 32, .tokens = 32 * 512}); }
//   logger.log(step, {{"samples_per_second", throughput.samples_per_second()}});
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/core/memory/process_memory.h"

namespace mezzo::train {

/// Seconds since some fixed moment, which never go back.
using Clock = mezzo::detail::Function<double()>;
/// The system's clock CLOCK_MONOTONIC: it goes on evenly when the time of day is set.
[[nodiscard]] double steady_seconds();

struct ThroughputOptions {
  std::size_t window = 100;  ///< updates that the rates without `total` in their name look back; at least 1
  Clock clock = {};          ///< default: steady_seconds
};
/// The work since the previous update.
struct Work {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  std::int64_t steps = 1;
};

/// Counts work and time. The time begins with the object (or reset()), and stands still between pause() and
/// resume(), as for a validation. Rates are NaN while no time has passed. On a CUDA device the host runs
/// ahead by what its queue holds, so a window of few updates shows how fast work is queued; over a longer
/// window both rates are the same. Throws: ValueError for a window of 0 or negative work.
class Throughput {
 public:
  explicit Throughput(ThroughputOptions options = {});

  void update(const Work& work);
  void pause();
  void resume();
  void reset();

  // Over the window.
  [[nodiscard]] double samples_per_second() const;
  [[nodiscard]] double tokens_per_second() const;
  [[nodiscard]] double steps_per_second() const;
  // Since the beginning.
  [[nodiscard]] double total_samples_per_second() const;
  [[nodiscard]] double total_tokens_per_second() const;
  [[nodiscard]] double total_steps_per_second() const;
  /// All work, and the seconds until the last update, without pauses.
  [[nodiscard]] const Work& total() const noexcept { return marks_[newest_].work; }
  [[nodiscard]] double seconds() const noexcept { return marks_[newest_].seconds; }

 private:
  /// Sums up to an update.
  struct Mark {
    double seconds = 0;
    Work work{0, 0, 0};
  };
  [[nodiscard]] double now() const { return clock_(); }
  /// The mark that the window begins with.
  [[nodiscard]] const Mark& oldest() const noexcept {
    return marks_[(newest_ + marks_.size() + 1 - count_) % marks_.size()];
  }
  [[nodiscard]] double rate(std::int64_t Work::*kind, const Mark& first) const;

  Clock clock_;
  std::vector<Mark> marks_;  // a ring of window + 1
  std::size_t newest_ = 0, count_ = 1;
  double begin_ = 0;  // of the clock, moved on by pauses
  double paused_at_ = 0;
  bool paused_ = false;
};

using mezzo::process_memory;
using mezzo::ProcessMemory;

}  // namespace mezzo::train
