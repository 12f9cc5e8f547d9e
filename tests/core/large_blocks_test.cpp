// Large blocks: what they are cut from, what goes back to the system, and what a process holds where sizes
// vary.
#include "mezzo/core/memory/large_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/core/memory/process_memory.h"
#include "mezzo/ops/factory.h"
#include "support/sanitizer.h"

namespace mezzo {
namespace {

using detail::LargeBlocks;

constexpr std::size_t kMiB = std::size_t{1} << 20U;

/// Memory of the host with a limit; counts what is taken, and fills what is discarded.
class CountingBackend final : public Backend {
 public:
  [[nodiscard]] int device_count() const override { return 1; }
  [[nodiscard]] std::string description() const override { return "of a test"; }
  [[nodiscard]] void* allocate(std::size_t bytes, int /*index*/) override {
    if (taken + bytes > limit) return nullptr;
    taken += bytes;
    ++calls;
    return std::malloc(bytes);
  }
  void deallocate(void* memory, std::size_t bytes, int /*index*/) noexcept override {
    taken -= bytes;
    ++calls;
    std::free(memory);
  }
  void discard(void* memory, std::size_t bytes, int /*index*/) noexcept override {
    ++calls;
    discarded += bytes;
    std::memset(memory, 0x5a, bytes);
  }
  void copy_from_host(void*, const void*, std::size_t, int) override {}
  void copy_to_host(void*, const void*, std::size_t, int) override {}
  void copy_within(void*, const void*, std::size_t, int) override {}
  void set_zero(void*, std::size_t, int) override {}
  void synchronize(int) override {}

  std::size_t taken = 0, discarded = 0, limit = SIZE_MAX;
  int calls = 0;
};

TEST(LargeBlocks, ShareSegmentsAndUseWhatIsFreeForAnySize) {
  CountingBackend backend;
  LargeBlocks blocks(backend, 0);
  EXPECT_EQ(blocks.take(kMiB), nullptr) << "nothing is free";
  void* const first = blocks.grow(100 * kMiB);
  void* const second = blocks.take(100 * kMiB);
  EXPECT_EQ(static_cast<std::byte*>(second), static_cast<std::byte*>(first) + 100 * kMiB);
  EXPECT_EQ(backend.calls, 1);
  EXPECT_EQ(blocks.take(100 * kMiB), nullptr) << "56 MiB are left";
  blocks.put(first);
  blocks.put(second);
  EXPECT_EQ(blocks.reserved(), 200 * kMiB) << "what nobody has used takes no memory";
  void* const third = blocks.take(120 * kMiB);
  EXPECT_EQ(third, first) << "free neighbours are one";
  EXPECT_EQ(blocks.reserved(), 200 * kMiB);
  blocks.put(third);
  EXPECT_EQ(blocks.take(250 * kMiB), first);
  EXPECT_EQ(blocks.reserved(), 250 * kMiB);
  blocks.put(first);
  blocks.give_back(SIZE_MAX);
  EXPECT_EQ(blocks.reserved(), 0U);
  EXPECT_EQ(backend.taken, 0U);
}

TEST(LargeBlocks, ABlockThatIsInUseKeepsItsSegmentButNotThePagesBesideIt) {
  CountingBackend backend;
  LargeBlocks blocks(backend, 0);
  void* const large = blocks.grow(150 * kMiB);
  EXPECT_EQ(blocks.reserved(), 150 * kMiB);
  EXPECT_EQ(backend.taken, 150 * kMiB) << "from 128 MiB on a block has its own segment";
  blocks.put(large);
  void* const small = blocks.take(kMiB);
  blocks.give_back(5 * kMiB);
  EXPECT_EQ(backend.discarded, 149 * kMiB);
  EXPECT_EQ(blocks.reserved(), kMiB);
  void* const half = blocks.take(10 * kMiB);
  EXPECT_EQ(blocks.reserved(), 11 * kMiB) << "what is used again is taken again";
  blocks.put(small);
  blocks.put(half);
  EXPECT_EQ(blocks.reserved(), 11 * kMiB);
  void* const first = blocks.take(11 * kMiB);
  EXPECT_EQ(blocks.reserved(), 11 * kMiB) << "in the order of addresses: what is there comes first";
  blocks.put(first);
  EXPECT_EQ(blocks.take(150 * kMiB), large);
  EXPECT_EQ(blocks.reserved(), 150 * kMiB);
  blocks.put(large);
  blocks.give_back(1);
  EXPECT_EQ(backend.taken, 0U);
}

TEST(LargeBlocks, TakeTheFirstPlaceThatFitsInTheOldestSegment) {
  CountingBackend backend;
  LargeBlocks blocks(backend, 0);
  void* const oldest = blocks.grow(130 * kMiB);
  void* const newer = blocks.grow(10 * kMiB);
  void* const first = blocks.take(3 * kMiB);
  void* const second = blocks.take(5 * kMiB);
  blocks.put(first);
  void* const behind = blocks.take(4 * kMiB);
  EXPECT_EQ(behind, static_cast<std::byte*>(second) + 5 * kMiB) << "3 MiB are too few";
  EXPECT_EQ(blocks.take(2 * kMiB), first);
  blocks.put(oldest);
  EXPECT_EQ(blocks.take(kMiB), oldest);
  blocks.put(newer);
  void* const last = blocks.take(kMiB);
  EXPECT_EQ(last, static_cast<std::byte*>(oldest) + kMiB);
  for (void* const block : {first, second, behind, oldest, last}) blocks.put(block);
  blocks.give_back(SIZE_MAX);
  EXPECT_EQ(backend.taken, 0U);
}

TEST(LargeBlocks, AHoleCountsAgainWhenItsNeighboursAreFree) {
  CountingBackend backend;
  LargeBlocks blocks(backend, 0);
  std::vector<void*> held{blocks.grow(10 * kMiB), blocks.take(10 * kMiB), blocks.take(10 * kMiB)};
  blocks.put(held[1]);
  blocks.give_back(SIZE_MAX);
  EXPECT_EQ(blocks.reserved(), 20 * kMiB);
  blocks.put(held[0]);
  EXPECT_EQ(blocks.reserved(), 20 * kMiB) << "the end of 20 MiB";
  blocks.put(held[2]);
  EXPECT_EQ(blocks.reserved(), 30 * kMiB) << "at most: 10 MiB in the middle are not there";
  blocks.give_back(1);
  EXPECT_EQ(blocks.reserved(), 0U);
}

TEST(LargeBlocks, TakeNoSharedSegmentWhereTheSystemHasNone) {
  CountingBackend backend;
  backend.limit = 3 * kMiB;
  LargeBlocks blocks(backend, 0);
  EXPECT_EQ(blocks.grow(4 * kMiB), nullptr);
  void* const block = blocks.grow(2 * kMiB);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(blocks.reserved(), 2 * kMiB);
  blocks.put(block);
  blocks.give_back(SIZE_MAX);
}

TEST(LargeBlocks, NeverOverlapAndAreCountedRight) {
  CountingBackend backend;
  LargeBlocks blocks(backend, 0);
  std::mt19937 random(7);
  std::map<std::byte*, std::size_t> held;
  std::size_t in_use = 0;
  for (int i = 0; i < 5'000; ++i) {
    if (held.empty() || random() % 100 < 52) {
      const std::size_t size = kMiB / 4 + random() % (i % 50 == 0 ? 40 * kMiB : 3 * kMiB);
      void* memory = blocks.take(size);
      if (memory == nullptr) memory = blocks.grow(size);
      auto* const address = static_cast<std::byte*>(memory);
      const auto after = held.lower_bound(address);
      ASSERT_TRUE(after == held.end() || address + size <= after->first);
      ASSERT_TRUE(after == held.begin() || std::prev(after)->first + std::prev(after)->second <= address);
      held[address] = size;
      in_use += size;
    } else {
      const auto chosen = std::next(held.begin(), static_cast<std::ptrdiff_t>(random() % held.size()));
      blocks.put(chosen->first);
      in_use -= chosen->second;
      held.erase(chosen);
    }
    if (random() % 20 == 0) blocks.give_back(random() % (20 * kMiB));
    ASSERT_GE(blocks.reserved(), in_use);
    ASSERT_LE(blocks.reserved(), backend.taken);
  }
  blocks.give_back(SIZE_MAX);
  EXPECT_LE(blocks.reserved(), in_use + held.size() * (kMiB / 8)) << "all that is free is given back";
  for (const auto& [address, size] : held) blocks.put(address);
  blocks.give_back(SIZE_MAX);
  EXPECT_EQ(blocks.reserved(), 0U);
  EXPECT_EQ(backend.taken, 0U);
}

class MemoryFollowsUse : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::under_address_sanitizer()) GTEST_SKIP() << "there malloc keeps freed memory for a while";
    empty_cache(Device::cpu());
    reset_peak_memory_stats(Device::cpu());
  }
  /// The most bytes that are taken from the system while `step` runs so often, beyond those before.
  static std::int64_t most_reserved(int steps, const std::function<void(int)>& step) {
    const std::int64_t before = memory_stats(Device::cpu()).reserved;
    std::int64_t most = 0;
    for (int i = 0; i < steps; ++i) {
      step(i);
      most = std::max(most, memory_stats(Device::cpu()).reserved);
    }
    return most - before;
  }
  static std::int64_t peak() { return memory_stats(Device::cpu()).peak; }
};

constexpr std::int64_t kFloor = std::int64_t{33} << 20U;

TEST_F(MemoryFollowsUse, WhereSizesVary) {
  const std::int64_t most = most_reserved(300, [](int i) { static_cast<void>(empty({1000000 + 5000 * i})); });
  EXPECT_LE(most, 2 * peak() + kFloor);
}

TEST_F(MemoryFollowsUse, WhereMoreThanThereIsWasAskedFor) {
  for (const std::size_t bytes : {std::size_t{1} << 50U, std::size_t{1} << 58U}) {
    EXPECT_THROW(static_cast<void>(detail::allocate_bytes(bytes, Device::cpu())), OutOfMemoryError);
  }
  const std::int64_t most = most_reserved(30, [](int i) {
    std::vector<Tensor> step;
    for (int j = 0; j < 300; ++j) step.push_back(empty({2000 * (i + 1)}));
  });
  EXPECT_LE(most, 2 * peak() + kFloor);
}

TEST_F(MemoryFollowsUse, WhereALittleOfEachSizeIsKept) {
  std::vector<Tensor> kept;
  const std::int64_t most = most_reserved(100, [&](int i) {
    std::vector<Tensor> step;
    for (int j = 0; j < 5; ++j) step.push_back(empty({1'000'000 + 10'000 * i}));
    kept.push_back(empty({70'000}));
  });
  EXPECT_LE(most, 2 * peak() + kFloor);
  kept.resize(kept.size() / 2);
  empty_cache(Device::cpu());
  const MemoryStats stats = memory_stats(Device::cpu());
  EXPECT_LE(stats.cached, stats.current / 4 + static_cast<std::int64_t>(kMiB));
}

TEST_F(MemoryFollowsUse, WhereOneThreadFreesWhatAnotherMade) {
  const std::int64_t most = most_reserved(40, [](int i) {
    std::vector<Tensor> made;
    std::thread([&] {
      for (int j = 0; j < 20; ++j) made.push_back(empty({3000 * (j + 1) + 1000 * i}));
    }).join();
    std::thread([gone = std::move(made)]() mutable { gone.clear(); }).join();
  });
  EXPECT_LE(most, 2 * peak() + kFloor);
}

TEST_F(MemoryFollowsUse, WhereEachThreadHasItsOwnSizes) {
  std::vector<std::thread> threads;
  std::vector<std::int64_t> most(8);
  for (std::size_t t = 0; t < most.size(); ++t) {
    threads.emplace_back([&, t] {
      most[t] = most_reserved(100, [t](int i) {
        const auto size = static_cast<std::int64_t>(1000 * (t + 1)) + 977 * ((i * 37) % 100);
        const Tensor x = empty({size}), y = empty({2 * size, 3});
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(*std::max_element(most.begin(), most.end()), 2 * peak() + kFloor);
}

/// Makes tensors of so many floats, each followed by a string that is kept, and lets them go.
void expect_to_go_back(std::int64_t floats, int count) {
  std::vector<std::unique_ptr<std::string>> kept;
  const std::int64_t before = process_memory().resident;
  if (before == 0) GTEST_SKIP() << "no /proc";
  {
    std::vector<Tensor> tensors;
    for (int i = 0; i < count; ++i) {
      tensors.push_back(zeros({floats + 100 * i}));
      kept.push_back(std::make_unique<std::string>(200, 'x'));
    }
    EXPECT_GT(process_memory().resident - before, 3 * floats * count);
  }
  empty_cache(Device::cpu());
  EXPECT_LT(process_memory().resident - before, floats * count / 2);
}

TEST_F(MemoryFollowsUse, LargeBlocksGoBackWhateverLiesBetweenThem) { expect_to_go_back(1'000'000, 40); }

TEST_F(MemoryFollowsUse, SmallerBlocksGoBackToo) {
#if !defined(__GLIBC__)
  GTEST_SKIP() << "they are malloc's, which gives them back by malloc_trim of glibc";
#endif
  expect_to_go_back(20'000, 1000);
}

TEST_F(MemoryFollowsUse, AndAStepThatRepeatsTakesNothingFromTheSystem) {
  const auto step = [] {
    std::vector<Tensor> held;
    for (int i = 0; i < 50; ++i) held.push_back(empty({20000 + 7919 * i}));
  };
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t before = memory_stats(Device::cpu()).system_allocations;
  for (int i = 0; i < 2000; ++i) step();
  EXPECT_EQ(memory_stats(Device::cpu()).system_allocations, before);
}

}  // namespace
}  // namespace mezzo
