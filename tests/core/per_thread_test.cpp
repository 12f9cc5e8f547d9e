// Objects of a thread: one each, destroyed when it ends, the last made first.
#include "mezzo/core/memory/per_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace mezzo {
namespace {

std::atomic<int> made{0};
std::vector<int> gone;

template <int kNumber>
struct Counted {
  Counted() { ++made; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { gone.push_back(kNumber); }
  int value = 0;
};

constinit detail::PerThread<Counted<1>> first;
constinit detail::PerThread<Counted<2>> second;

TEST(PerThread, EachThreadHasItsOwnUntilItEnds) {
  made = 0;
  gone.clear();
  for (int round = 0; round < 2; ++round) {
    std::thread([] {
      first.get().value = 7;
      second.get().value = 8;
      EXPECT_EQ(first.get().value, 7);
      EXPECT_EQ(second.get().value, 8);
    }).join();
  }
  EXPECT_EQ(made, 4);
  EXPECT_EQ(gone, (std::vector<int>{2, 1, 2, 1}));
  std::thread([] { EXPECT_EQ(first.get().value, 0); }).join();
}

struct AsksForFirst {
  ~AsksForFirst() { first.get().value = 1; }
};
constinit detail::PerThread<AsksForFirst> asks;

TEST(PerThread, WhatIsAskedForWhileTheThreadEndsIsDestroyedToo) {
  made = 0;
  gone.clear();
  std::thread([] { static_cast<void>(asks.get()); }).join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(gone, std::vector<int>{1});
}

}  // namespace
}  // namespace mezzo
