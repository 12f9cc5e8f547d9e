// Functions that run on threads of their own at the same time.
#pragma once

#include <barrier>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "mezzo/tests/support/sanitizer.h"

namespace mezzo::test {

/// So many repetitions, or a tenth under a sanitizer.
inline int times(int count) { return under_sanitizer() ? count / 10 : count; }

/// Runs each function on a thread of its own, starting together; the first exception is thrown on.
inline void run_together(const std::vector<std::function<void()>>& functions) {
  std::barrier<> start(static_cast<std::ptrdiff_t>(functions.size()));
  std::exception_ptr problem;
  std::mutex mutex;
  std::vector<std::thread> threads;
  threads.reserve(functions.size());
  for (const auto& function : functions) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      try {
        function();
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!problem) problem = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (problem) std::rethrow_exception(problem);
}

/// Runs function(0), function(1), ..., each on a thread of its own.
inline void run_together(int count, const std::function<void(int)>& function) {
  std::vector<std::function<void()>> functions;
  for (int i = 0; i < count; ++i) functions.emplace_back([&function, i] { function(i); });
  run_together(functions);
}

}  // namespace mezzo::test
