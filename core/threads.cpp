// The thread count is what set_num_threads() stored, else one that suits the process, which is looked up
// once.
#include "mezzo/core/threads.h"

#include <pthread.h>

#include <atomic>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/core/parallel/processors.h"

namespace mezzo {

namespace {

/// Process-wide; 0 until it is set. It changes speed, never results.
std::atomic<int> g_num_threads{0};

/// A child of fork() has none of its parent's threads. Programs that fork do so to have many processes, so
/// each begins with one thread.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { g_num_threads = 1; });

}  // namespace

int get_num_threads() noexcept {
  static const int default_threads = detail::default_threads();
  const int set = g_num_threads.load(std::memory_order_relaxed);
  return set > 0 ? set : default_threads;
}

void set_num_threads(int threads) {
  if (threads < 1) {
    throw ValueError("set_num_threads", "at least 1", std::to_string(threads),
                     "to go back, pass what get_num_threads() gave before");
  }
  g_num_threads.store(threads, std::memory_order_relaxed);
}

}  // namespace mezzo
