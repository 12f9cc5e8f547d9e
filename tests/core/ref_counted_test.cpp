// OnceRef: of the objects that several threads bring, one stays and all of them get it.
#include "mezzo/core/ref_counted.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace mezzo {
namespace {

std::atomic<int> living{0};
struct Counted final : RefCounted {
  Counted() { ++living; }
  ~Counted() override { --living; }
};

TEST(OnceRef, KeepsTheFirstObject) {
  {
    OnceRef<Counted> once;
    EXPECT_EQ(once.get(), nullptr);
    const Ref<Counted> first = make_ref<Counted>();
    EXPECT_EQ(&once.set(first), first.get());
    EXPECT_EQ(&once.set(make_ref<Counted>()), first.get());
    EXPECT_EQ(once.get(), first.get());
    EXPECT_EQ(first->use_count(), 2U);
    EXPECT_EQ(living, 1);
    once.reset();
    EXPECT_EQ(once.get(), nullptr);
    EXPECT_EQ(first->use_count(), 1U);
    once.set(first);
  }
  EXPECT_EQ(living, 0);
}

TEST(OnceRef, IsTheSameForAllThreadsThatSetIt) {
  for (int round = 0; round < 200; ++round) {
    OnceRef<Counted> once;
    std::array<const Counted*, 4> got{};
    std::atomic<int> waiting{4};
    std::vector<std::thread> threads;
    for (const Counted*& mine : got) {
      threads.emplace_back([&] {
        --waiting;
        while (waiting > 0) std::this_thread::yield();
        mine = &once.set(make_ref<Counted>());
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Counted* mine : got) ASSERT_EQ(mine, once.get());
    ASSERT_EQ(living, 1);
  }
  EXPECT_EQ(living, 0);
}

}  // namespace
}  // namespace mezzo
