// Loops on a busy machine, where the system takes a helper off its processor in the middle of a chunk and the
// caller waits milliseconds for that chunk: they do without that helper for a while.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace mezzo::detail {

/// How many helpers loops do without. Each one that was preempted while its caller waited counts until the
/// pause ends. Pauses that follow each other closely double, so that a machine which stays busy is asked
/// rarely. Threads that call at once may count one helper too few, which costs time and no result.
class HelperBackoff {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kShortest{4}, kLongest{64};

  /// A helper was preempted, and its caller waited long.
  void add_preempted(Clock::time_point now) noexcept {
    const std::int64_t time = now.time_since_epoch().count(), end = end_.load(std::memory_order_relaxed);
    if (time < end) {
      helpers_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    const std::int64_t last = pause_.load(std::memory_order_relaxed);
    const std::int64_t pause = time - end <= last ? std::min(2 * last, ticks(kLongest)) : ticks(kShortest);
    helpers_.store(1, std::memory_order_relaxed);
    pause_.store(pause, std::memory_order_relaxed);
    end_.store(time + pause, std::memory_order_relaxed);
  }

  /// Helpers that a loop which begins now does without. Reads the clock only during a pause.
  [[nodiscard]] int preempted() noexcept {
    return helpers_.load(std::memory_order_relaxed) == 0 ? 0 : preempted(Clock::now());
  }
  [[nodiscard]] int preempted(Clock::time_point now) noexcept {
    if (now.time_since_epoch().count() >= end_.load(std::memory_order_relaxed))
      helpers_.store(0, std::memory_order_relaxed);
    return helpers_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::int64_t ticks(Clock::duration time) noexcept { return time.count(); }

  std::atomic<int> helpers_{0};
  std::atomic<std::int64_t> end_{0}, pause_{0};  // in ticks of Clock
};

}  // namespace mezzo::detail
