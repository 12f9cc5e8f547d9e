// The system tells a child that it is one.
#include "mezzo/core/fork.h"

#include <pthread.h>

#include <atomic>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace mezzo::detail {

namespace {

std::atomic<bool> forked{false};

void begin_child() noexcept {
  forked = true;
#ifdef _OPENMP
  omp_set_num_threads(1);  // for regions of oneDNN's own
#endif
}

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, begin_child);

}  // namespace

bool in_forked_child() noexcept { return forked.load(std::memory_order_relaxed); }

}  // namespace mezzo::detail
