// parallel_for: which chunks there are, that each runs once, exceptions, nesting.
#include "mezzo/kernels/cpu/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mezzo/core/parallel/helper_backoff.h"
#include "support/thread_guard.h"

namespace mezzo::kernels::cpu {
namespace {

using Threads = test::ThreadGuard;

/// Lets threads wait for each other, but not for ever.
class Meeting {
 public:
  explicit Meeting(int expected) : expected_(expected) {}
  /// False when not all came within 60 s.
  bool come() {
    ++came_;
    while (came_ < expected_ && std::chrono::steady_clock::now() < limit_) std::this_thread::yield();
    return came_ >= expected_;
  }

 private:
  int expected_;
  std::atomic<int> came_{0};
  std::chrono::steady_clock::time_point limit_ = std::chrono::steady_clock::now() + std::chrono::seconds(60);
};

using Chunks = std::set<std::pair<std::int64_t, std::int64_t>>;

/// The chunks that run.
Chunks chunks_of(std::int64_t n, std::int64_t grain) {
  Chunks chunks;
  std::mutex mutex;
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(chunks.emplace(begin, end).second) << "chunk ran twice: " << begin;
  });
  return chunks;
}

TEST(ParallelFor, ChunksAreTheSameForEveryNumberOfThreads) {
  const Chunks expected{{0, 4}, {4, 8}, {8, 11}};
  for (const int threads : {1, 2, 3, 8}) {
    const Threads guard(threads);
    EXPECT_EQ(chunks_of(11, 4), expected) << threads << " threads";
  }
}

TEST(ParallelFor, EveryIndexIsVisitedOnce) {
  const Threads guard(4);
  for (const std::int64_t n : {1, 2, 63, 64, 65, 1000}) {
    for (const std::int64_t grain : {1, 7, 64, 1000, 5000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(n));
      parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& count : visits) ASSERT_EQ(count, 1) << "n " << n << ", grain " << grain;
    }
  }
}

TEST(ParallelFor, NothingToDoCallsNothing) {
  EXPECT_TRUE(chunks_of(0, 4).empty());
  EXPECT_TRUE(chunks_of(-3, 4).empty());
}

TEST(ParallelFor, GrainBelowOneCountsAsOne) {
  EXPECT_EQ(chunks_of(2, 0), (Chunks{{0, 1}, {1, 2}}));
  EXPECT_EQ(chunks_of(2, -5), (Chunks{{0, 1}, {1, 2}}));
}

TEST(ParallelFor, LargestSizesDoNotOverflow) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(chunks_of(kMax, kMax), (Chunks{{0, kMax}}));
  EXPECT_EQ(chunks_of(kMax, kMax / 2), (Chunks{{0, kMax / 2}, {kMax / 2, kMax - 1}, {kMax - 1, kMax}}));
}

TEST(ParallelFor, OneChunkRunsOnTheCallerOutsideOfAnyRegion) {
  const Threads guard(4);
  std::thread::id runner;
  bool inside = true;
  parallel_for(10, 10, [&](std::int64_t, std::int64_t) {
    runner = std::this_thread::get_id();
    inside = in_parallel();
  });
  EXPECT_EQ(runner, std::this_thread::get_id());
  EXPECT_FALSE(inside);
}

TEST(ParallelFor, UsesSeveralThreads) {
  const Threads guard(3);
  // On a busy machine loops do with fewer threads for a while, because of the loops before.
  std::this_thread::sleep_for(2 * mezzo::detail::HelperBackoff::kLongest);
  std::set<std::thread::id> ids;
  std::mutex mutex;
  Meeting meeting(3);
  parallel_for(3, 1, [&](std::int64_t, std::int64_t) {
    EXPECT_TRUE(in_parallel());
    EXPECT_TRUE(meeting.come());
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 3U);
}

TEST(ParallelFor, NestedCallRunsOnItsOwnThreadWithTheSameChunks) {
  const Threads guard(2);
  std::atomic<int> chunks{0};
  parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    parallel_for(10, 3, [&](std::int64_t, std::int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      ++chunks;
    });
  });
  EXPECT_EQ(chunks, 8);
}

TEST(ParallelFor, ExceptionReachesTheCaller) {
  for (const int threads : {1, 4}) {
    const Threads guard(threads);
    try {
      parallel_for(100, 1, [](std::int64_t begin, std::int64_t) {
        if (begin == 42) throw std::runtime_error("chunk 42");
      });
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "chunk 42");
    }
    EXPECT_EQ(chunks_of(11, 4).size(), 3U) << "works again afterwards";
  }
}

TEST(ParallelFor, IdleThreadTakesOverTheWorkOfABusyOne) {
  // Once the caller is the busy one, with the first share, once the helper.
  for (const bool callers : {true, false}) {
    const Threads guard(2);
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> busy{false};
    std::atomic<int> others{0};
    Meeting both(2);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
      if ((std::this_thread::get_id() == caller) == callers && !busy.exchange(true)) {
        both.come();
        while (others < 7 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
        EXPECT_EQ(others, 7) << "chunks of its share waited for it";
        return;
      }
      if (others == 0) both.come();
      ++others;
    });
  }
}

TEST(ParallelFor, ExceptionOfTheLowestChunkWins) {
  const Threads guard(4);
  Meeting all(4);
  try {
    parallel_for(4, 1, [&](std::int64_t begin, std::int64_t) {
      EXPECT_TRUE(all.come()) << "all four must throw";
      throw std::runtime_error(std::to_string(begin));
    });
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "0");
  }
}

}  // namespace
}  // namespace mezzo::kernels::cpu
