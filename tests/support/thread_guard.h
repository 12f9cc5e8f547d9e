// For tests that vary the number of threads.
#pragma once

#include "mezzo/core/threads.h"

namespace mezzo::test {

/// While it lives, kernels may use `threads` threads; then as many as before.
class ThreadGuard {
 public:
  explicit ThreadGuard(int threads) : before_(get_num_threads()) { set_num_threads(threads); }
  ~ThreadGuard() { set_num_threads(before_); }
  ThreadGuard(const ThreadGuard&) = delete;
  ThreadGuard& operator=(const ThreadGuard&) = delete;

 private:
  int before_;
};

}  // namespace mezzo::test
