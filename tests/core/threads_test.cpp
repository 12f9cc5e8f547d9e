// The number of threads: the setting, and that kernels obey it.
#include <gtest/gtest.h>

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

/// Threads that a loop of 64 chunks ran on.
std::size_t threads_of_a_loop() {
  std::set<std::thread::id> threads;
  std::mutex mutex;
  kernels::cpu::parallel_for(64, 1, [&](std::int64_t, std::int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  return threads.size();
}

TEST(NumThreads, IsWhatWasSet) {
  const int before = get_num_threads();
  EXPECT_GE(before, 1);
  {
    const test::ThreadGuard guard(5);
    const bool single = threads_of_a_loop() == 1;  // built without OpenMP
    EXPECT_EQ(get_num_threads(), single ? 1 : 5);
    EXPECT_TRUE(single || threads_of_a_loop() == 5);
  }
  EXPECT_EQ(get_num_threads(), before);
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
