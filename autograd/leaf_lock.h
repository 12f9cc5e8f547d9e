// The lock of one tensor's AutogradMeta. Recursive, because ops that run with it held may be observed
// (OpObserver), and an observer may ask for a gradient. Not a std::mutex, because an optimizer step holds the
// locks of all parameters at once, and thread sanitizers give up on programs that hold more than 64 mutexes.
#pragma once

#include <atomic>
#include <cstdint>

namespace mezzo::autograd {

/// A mutex that the thread which holds it may lock again, and has to unlock as often. Whoever waits sleeps.
class LeafLock {
 public:
  void lock() noexcept {
    if (holder_.load(std::memory_order_relaxed) == this_thread()) {
      ++again_;
      return;
    }
    std::uint32_t free = kFree;
    if (!state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire)) wait_for_it();
    holder_.store(this_thread(), std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (again_ > 0) {
      --again_;
      return;
    }
    holder_.store(nullptr, std::memory_order_relaxed);
    if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) state_.notify_one();
  }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1, kWaitedFor = 2;

  /// An address that no other living thread has.
  [[nodiscard]] static const void* this_thread() noexcept {
    static thread_local char mark;
    return &mark;
  }
  void wait_for_it() noexcept {
    // A thread that has waited marks the lock as waited for when it takes it, as other threads may wait
    // still; at worst one is woken in vain.
    while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree)
      state_.wait(kWaitedFor, std::memory_order_relaxed);
  }

  std::atomic<std::uint32_t> state_{kFree};
  std::uint32_t again_ = 0;  ///< locks by the holder after its first; only the holder looks at it
  std::atomic<const void*> holder_{nullptr};
};

}  // namespace mezzo::autograd
