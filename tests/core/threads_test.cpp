// The number of threads: the setting, and that kernels obey it.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/mezzo.h"  // the umbrella: this is where programs get it from
#include "support/thread_guard.h"

namespace mezzo {
namespace {

/// Threads that a loop of 64 chunks runs on when each waits, for 60 s at most, until `expected` have come.
std::size_t threads_of_a_loop(std::size_t expected) {
  std::set<std::thread::id> threads;
  std::mutex mutex;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto came = [&] {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return threads.size();
  };
  kernels::cpu::parallel_for(64, 1, [&](std::int64_t, std::int64_t) {
    while (came() < expected && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // time for one too many to come
  });
  return threads.size();
}

TEST(NumThreads, IsWhatWasSet) {
  const int before = get_num_threads();
  EXPECT_GE(before, 1);
  for (const int threads : {5, 1, 3}) {
    const test::ThreadGuard guard(threads);
    EXPECT_EQ(get_num_threads(), threads);
    EXPECT_EQ(threads_of_a_loop(static_cast<std::size_t>(threads)), static_cast<std::size_t>(threads));
  }
  EXPECT_EQ(get_num_threads(), before);
}

TEST(NumThreads, IsOneForAllThreadsOfTheProgram) {
  const test::ThreadGuard guard(3);
  std::thread([] {
    EXPECT_EQ(get_num_threads(), 3);
    set_num_threads(2);
  }).join();
  EXPECT_EQ(get_num_threads(), 2);
}

TEST(NumThreads, BelowOneIsRefusedAndChangesNothing) {
  const int before = get_num_threads();
  for (const int wrong : {0, -1, std::numeric_limits<int>::min()}) {
    try {
      set_num_threads(wrong);
      ADD_FAILURE() << wrong << " was accepted";
    } catch (const ValueError& error) {
      EXPECT_EQ(error.what(), "set_num_threads: expected at least 1, got " + std::to_string(wrong) +
                                  "; to go back, pass what get_num_threads() gave before");
    }
  }
  EXPECT_EQ(get_num_threads(), before);
}

}  // namespace
}  // namespace mezzo
