// Scopes of threads, for kinds that are rarely open: recordings of graphs. Asking for one costs a load while
// none is open on any thread. They take no thread-local memory, of which there are 256 bytes for all
// (core/memory/per_thread.h).
#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace mezzo::detail {

/// The open scopes of all threads. `Scope` has the members `Scope* older_` and `pthread_t thread_`, names
/// this class as a friend, and ends on the thread that made it.
template <class Scope>
class RareScopes {
 public:
  constexpr RareScopes() noexcept = default;

  void begin(Scope& scope) noexcept {
    const std::scoped_lock lock(mutex_);
    scope.thread_ = pthread_self();
    scope.older_ = newest_;
    newest_ = &scope;
    open_.fetch_add(1, std::memory_order_relaxed);
  }
  void end(Scope& scope) noexcept {
    const std::scoped_lock lock(mutex_);
    Scope** at = &newest_;
    while (*at != &scope) at = &(*at)->older_;
    *at = scope.older_;
    open_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// The newest scope of this thread for which fits(scope) is true, or nullptr.
  template <class F>
  [[nodiscard]] Scope* find(const F& fits) noexcept {
    if (open_.load(std::memory_order_relaxed) == 0) return nullptr;  // a thread sees its own additions
    const std::scoped_lock lock(mutex_);
    Scope* scope = newest_;
    while (scope != nullptr && !(pthread_equal(scope->thread_, pthread_self()) != 0 && fits(*scope)))
      scope = scope->older_;
    return scope;
  }

 private:
  std::mutex mutex_;
  Scope* newest_ = nullptr;
  std::atomic<int> open_{0};
};

}  // namespace mezzo::detail
