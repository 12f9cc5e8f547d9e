// A handler of fork() marks the child.
#include "mezzo/core/cuda/fork.h"

#include <pthread.h>

#include <atomic>

namespace mezzo::detail {

namespace {

std::atomic<bool> forked{false};

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { forked = true; });

}  // namespace

bool in_forked_child() noexcept { return forked.load(std::memory_order_relaxed); }

}  // namespace mezzo::detail
