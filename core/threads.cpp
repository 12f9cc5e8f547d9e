// The thread count is what set_num_threads() stored, else OpenMP's default. The default is read once,
// because OpenMP keeps it per thread and all threads of mezzo must agree.
#include "mezzo/core/threads.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/core/fork.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace mezzo {

namespace {

/// Process-wide; 0 until it is set. It changes speed, never results.
std::atomic<int> g_num_threads{0};

}  // namespace

int get_num_threads() noexcept {
#ifdef _OPENMP
  // Read once: omp_get_max_threads() is a setting of the calling thread, and every thread must agree.
  static const int default_threads = std::max(omp_get_max_threads(), 1);
  // OpenMP does not know that its threads are not there, and would wait for them for ever.
  if (detail::in_forked_child()) return 1;
  const int set = g_num_threads.load(std::memory_order_relaxed);
  return set > 0 ? set : default_threads;
#else
  return 1;
#endif
}

void set_num_threads(int threads) {
  if (threads < 1) {
    throw ValueError("set_num_threads", "at least 1", std::to_string(threads),
                     "to go back, pass what get_num_threads() gave before");
  }
  if (threads > 1 && detail::in_forked_child()) {
    throw StateError("set_num_threads", "1 thread in a child of fork()", std::to_string(threads),
                     "start the process by exec, as posix_spawn does");
  }
  g_num_threads.store(threads, std::memory_order_relaxed);
}

}  // namespace mezzo
