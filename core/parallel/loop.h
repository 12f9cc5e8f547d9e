// One loop over chunks, and what several threads need to share it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>

#include "mezzo/core/parallel/chunk.h"
#include "mezzo/core/parallel/float_environment.h"

namespace mezzo::detail {

/// Apart by a line of the cache, so that threads do not slow each other down.
inline constexpr std::size_t kCacheLine = 64;

/// Of the exceptions of all chunks, the exception of the lowest chunk.
class FirstError {
 public:
  /// The exception that is being handled.
  void store(std::int64_t chunk) noexcept {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr && chunk >= chunk_) return;
    chunk_ = chunk;
    error_ = std::current_exception();
    any_.store(true, std::memory_order_relaxed);
  }
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  std::int64_t chunk_ = 0;
  std::atomic<bool> any_{false};
};

/// A contiguous part of a loop's chunks. Each thread that comes takes the next chunk.
struct alignas(kCacheLine) Share {
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;

  /// False when none is left.
  [[nodiscard]] bool take(std::int64_t& chunk) noexcept {
    if (next.load(std::memory_order_relaxed) >= end) return false;
    chunk = next.fetch_add(1, std::memory_order_relaxed);
    return chunk < end;
  }
};

/// Lives on its caller's stack for as long as a thread works on it.
class Loop {
 public:
  /// Cuts [0, chunks) into `count` shares.
  Loop(std::int64_t chunks, ChunkFunction function, void* context, Share* shares, int count) noexcept
      : function_(function), context_(context), shares_(shares), count_(count) {
    std::int64_t begin = 0;
    for (int i = 0; i < count; ++i) {
      shares[i].next.store(begin, std::memory_order_relaxed);
      begin += chunks / count + (i < chunks % count ? 1 : 0);
      shares[i].end = begin;
    }
  }

  /// Runs chunks until every chunk has been begun: the chunks of share `first` before all others.
  void work(int first) noexcept {
    const WithFloatEnvironment callers(environment_);
    for (int i = 0; i < count_; ++i) {
      Share& share = shares_[(first + i) % count_];
      for (std::int64_t chunk = 0; share.take(chunk);) run(chunk);
    }
  }
  [[nodiscard]] int shares() const noexcept { return count_; }
  void rethrow() const { error_.rethrow(); }

 private:
  void run(std::int64_t chunk) noexcept {
    if (error_.any()) return;
    try {
      function_(context_, chunk);
    } catch (...) {
      error_.store(chunk);
    }
  }

  ChunkFunction function_;
  void* context_;
  Share* shares_;
  int count_;
  FloatEnvironment environment_ = FloatEnvironment::current();
  FirstError error_;
};

/// Where helper threads find a loop to join. It outlives the loop, so a helper that comes late finds it
/// closed.
class alignas(kCacheLine) Region {
 public:
  /// Takes it for the calling thread. False when another thread has it.
  [[nodiscard]] bool take() noexcept {
    std::uint32_t free = 0;
    return state_.load(std::memory_order_relaxed) == 0 &&
           state_.compare_exchange_strong(free, kTaken, std::memory_order_acquire);
  }
  void give_back() noexcept { state_.store(0, std::memory_order_release); }

  /// Memory for the shares of a loop; nullptr when the system has none left.
  [[nodiscard]] Share* shares(int count) noexcept {
    if (count > capacity_) {
      shares_.reset(new (std::nothrow) Share[static_cast<std::size_t>(count)]);
      capacity_ = shares_ != nullptr ? count : 0;
    }
    return shares_.get();
  }

  /// From now on up to `seats` helpers may join.
  void open(Loop& loop, int seats) noexcept {
    loop_ = &loop;
    state_.store(kTaken | kOpen | static_cast<std::uint32_t>(seats) * kSeat, std::memory_order_release);
  }
  /// Lets no more helpers join, and waits until the last one has left. True when that took long because the
  /// system had preempted one.
  bool close() noexcept;

  /// Joins the loop and returns it, or nullptr when it wants no more helpers.
  [[nodiscard]] Loop* join() noexcept {
    std::uint32_t state = state_.load(std::memory_order_acquire);
    while ((state & kOpen) != 0 && (state & kSeats) != 0) {
      if (state_.compare_exchange_weak(state, state - kSeat + kHelper, std::memory_order_acq_rel))
        return loop_;
    }
    return nullptr;
  }
  /// Whether the caller sleeps until helpers leave.
  [[nodiscard]] bool is_waited_for() const noexcept {
    return (state_.load(std::memory_order_relaxed) & kAsleep) != 0;
  }
  /// A helper that the caller sleeps for was preempted.
  void set_preempted() noexcept { state_.fetch_or(kPreempted, std::memory_order_relaxed); }
  void leave() noexcept {
    const std::uint32_t before = state_.fetch_sub(kHelper, std::memory_order_acq_rel);
    if ((before & kHelpers) == kHelper && (before & kOpen) == 0) state_.notify_one();
  }

 private:
  static constexpr std::uint32_t kTaken = 1, kOpen = 2, kAsleep = 4, kPreempted = 8;
  static constexpr std::uint32_t kSeat = 1U << 4, kSeats = 0x3fffU * kSeat;
  static constexpr std::uint32_t kHelper = 1U << 18, kHelpers = 0x3fffU * kHelper;

  /// The flags, seats that are free, helpers that are in.
  std::atomic<std::uint32_t> state_{0};
  Loop* loop_ = nullptr;
  std::unique_ptr<Share[]> shares_;
  int capacity_ = 0;
};

}  // namespace mezzo::detail
