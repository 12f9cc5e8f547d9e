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

#include "support/thread_guard.h"

namespace mezzo::kernels::cpu {
namespace {

using Threads = test::ThreadGuard;

bool has_threads() {
  const Threads two(2);
  return get_num_threads() == 2;
}

using Chunks = std::set<std::pair<std::int64_t, std::int64_t>>;

/// The chunks that run, of both forms of the loop, which must be the same.
Chunks chunks_of(std::int64_t n, std::int64_t grain) {
  Chunks chunks, on_demand;
  std::mutex mutex;
  const auto collect_in = [&mutex](Chunks& into) {
    return [&mutex, &into](std::int64_t begin, std::int64_t end) {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(into.emplace(begin, end).second) << "chunk ran twice: " << begin;
    };
  };
  parallel_for(n, grain, collect_in(chunks));
  parallel_for_on_demand(n, grain, collect_in(on_demand));
  EXPECT_EQ(chunks, on_demand);
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
  if (!has_threads()) GTEST_SKIP() << "built without OpenMP";
  const Threads guard(3);
  std::set<std::thread::id> ids;
  std::mutex mutex;
  parallel_for(3, 1, [&](std::int64_t, std::int64_t) {
    EXPECT_TRUE(in_parallel());
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

TEST(ParallelForOnDemand, IdleThreadTakesOverTheWorkOfABusyOne) {
  if (!has_threads()) GTEST_SKIP() << "built without OpenMP";
  const Threads guard(2);
  std::atomic<int> others{0};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  parallel_for_on_demand(8, 1, [&](std::int64_t begin, std::int64_t) {
    if (begin != 0) {
      ++others;
      return;
    }
    // The first chunk waits for all others: with fixed shares, some of them would wait for it.
    while (others < 7 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  });
  EXPECT_LT(std::chrono::steady_clock::now(), limit);
}

TEST(ParallelForOnDemand, ExceptionReachesTheCaller) {
  const Threads guard(4);
  EXPECT_THROW(parallel_for_on_demand(9, 1, [](std::int64_t, std::int64_t) { throw std::logic_error("x"); }),
               std::logic_error);
}

TEST(ParallelFor, ExceptionOfTheLowestChunkWins) {
  const int together = has_threads() ? 4 : 1;
  const Threads guard(4);
  std::atomic<int> ready{0};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  try {
    parallel_for(4, 1, [&](std::int64_t begin, std::int64_t) {
      ++ready;
      // So that all four throw; with a limit, in case OpenMP was told to give fewer threads.
      while (ready < together && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
      throw std::runtime_error(std::to_string(begin));
    });
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "0");
  }
}

}  // namespace
}  // namespace mezzo::kernels::cpu
