// The caching allocator through the functions that tensors use: reuse, splitting, statistics, streams.
#include "mezzo/core/cuda/caching_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/device_fixture.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/core/tensor.h"

namespace mezzo::cuda {
namespace {

using test::Bytes;
using test::pattern;

constexpr std::size_t kMiB = std::size_t{1} << 20;
const Device kDevice = Device::cuda(0);

class CudaAllocator : public test::CudaCacheTest {
 protected:
  void SetUp() override {
    CudaCacheTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(stats().current, 0) << "an earlier test keeps memory";
    ASSERT_EQ(stats().reserved, 0);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(stats().current, 0);
    synchronize(kDevice);
    empty_cache(kDevice);
    EXPECT_EQ(stats().reserved, 0);
  }
  static MemoryStats stats() { return memory_stats(kDevice); }
  static std::byte* take(std::size_t bytes) {
    return static_cast<std::byte*>(mezzo::detail::allocate_bytes(bytes, kDevice));
  }
  static void put(void* memory, std::size_t bytes) {
    mezzo::detail::deallocate_bytes(memory, bytes, kDevice);
  }
};

TEST_F(CudaAllocator, NoBytesAreNoMemory) {
  const std::int64_t before = stats().allocations;
  EXPECT_EQ(take(0), nullptr);
  put(nullptr, 0);
  EXPECT_EQ(stats().allocations, before);
}

TEST_F(CudaAllocator, AFreedBlockServesItsStreamAgainAtOnce) {
  const std::int64_t before = stats().system_allocations;
  std::byte* const first = take(100'000);
  put(first, 100'000);
  for (int i = 0; i < 100; ++i) {
    std::byte* const again = take(100'000);
    EXPECT_EQ(again, first);
    put(again, 100'000);
  }
  EXPECT_EQ(stats().system_allocations - before, 1);
}

TEST_F(CudaAllocator, SmallRequestsShareASegmentOf2MiB) {
  std::vector<std::byte*> blocks;
  const std::int64_t before = stats().system_allocations;
  for (int i = 0; i < 4096; ++i) blocks.push_back(take(1));  // 4096 times 512 bytes
  EXPECT_EQ(stats().system_allocations - before, 1);
  EXPECT_EQ(stats().reserved, static_cast<std::int64_t>(2 * kMiB));
  EXPECT_EQ(stats().current, 4096);
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t i = 1; i < blocks.size(); ++i) ASSERT_EQ(blocks[i] - blocks[i - 1], 512);
  for (std::byte* const block : blocks) put(block, 1);
}

TEST_F(CudaAllocator, SegmentsOfLargeRequests) {
  std::byte* const shared = take(2 * kMiB);
  EXPECT_EQ(stats().reserved, static_cast<std::int64_t>(20 * kMiB));
  std::byte* const own = take(31 * kMiB + 1);
  EXPECT_EQ(stats().reserved, static_cast<std::int64_t>((20 + 32) * kMiB));
  put(shared, 2 * kMiB);
  put(own, 31 * kMiB + 1);
}

TEST_F(CudaAllocator, NeighboursAreSplitAndMerged) {
  std::byte* const a = take(4 * kMiB);
  std::byte* const b = take(4 * kMiB);
  std::byte* const c = take(4 * kMiB);
  EXPECT_EQ(b, a + 4 * kMiB);
  EXPECT_EQ(c, b + 4 * kMiB);
  const std::int64_t before = stats().system_allocations;
  put(a, 4 * kMiB);
  put(b, 4 * kMiB);
  // The first two as one; c is still there.
  std::byte* const both = take(8 * kMiB);
  EXPECT_EQ(both, a);
  put(c, 4 * kMiB);
  put(both, 8 * kMiB);
  // In whatever order they were freed, the segment is whole again.
  std::byte* const whole = take(20 * kMiB);
  EXPECT_EQ(whole, a);
  EXPECT_EQ(stats().system_allocations, before);
  put(whole, 20 * kMiB);
}

TEST_F(CudaAllocator, TheSmallestBlockThatFitsIsTaken) {
  std::byte* const wide = take(6 * kMiB);
  std::byte* const wall = take(2 * kMiB);
  std::byte* const narrow = take(3 * kMiB);
  std::byte* const end = take(9 * kMiB);  // fills the segment
  put(wide, 6 * kMiB);
  put(narrow, 3 * kMiB);
  std::byte* const fits = take(3 * kMiB - 100);
  EXPECT_EQ(fits, narrow);
  put(fits, 3 * kMiB - 100);
  put(wall, 2 * kMiB);
  put(end, 9 * kMiB);
}

TEST_F(CudaAllocator, PeakResetAndEmptyCache) {
  reset_peak_memory_stats(kDevice);
  std::byte* const a = take(3'000'000);
  std::byte* const b = take(5'000'000);
  put(a, 3'000'000);
  EXPECT_EQ(stats().current, 5'000'000);
  EXPECT_EQ(stats().peak, 8'000'000);
  reset_peak_memory_stats(kDevice);
  EXPECT_EQ(stats().peak, 5'000'000);
  put(b, 5'000'000);
  EXPECT_GT(stats().reserved, 0);
  empty_cache(kDevice);
  EXPECT_EQ(stats().reserved, 0);
}

// Images of 20 to 1,019 pixels in two convolutions: what larger ones need cannot be cut from what smaller
// ones had.
TEST_F(CudaAllocator, WhereSizesVaryTwiceThePeakIsTakenAtMost) {
  reset_peak_memory_stats(kDevice);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < 240; ++i) {
    const std::size_t pixels = 20 + i * 337 % 1000;
    const std::size_t bytes = 16 * pixels * pixels;  // of 4 channels
    void* const x = take(bytes);
    void* const y = take(4 * bytes);
    void* const z = take(4 * bytes);
    for (const auto& [memory, size] : {std::pair(x, bytes), {y, 4 * bytes}, {z, 4 * bytes}})
      put(memory, size);
    most = std::max(most, stats().reserved);
  }
  EXPECT_LE(most, 2 * stats().peak + static_cast<std::int64_t>(64 * kMiB));
}

TEST_F(CudaAllocator, EmptyCacheKeepsSegmentsInUse) {
  std::byte* const kept = take(64);
  std::byte* const large = take(50 * kMiB);
  const Bytes expected = pattern(64, 4);
  write(kept, expected);
  put(large, 50 * kMiB);
  empty_cache(kDevice);
  EXPECT_EQ(stats().reserved, static_cast<std::int64_t>(2 * kMiB));
  EXPECT_EQ(read(kept, 64), expected);
  put(kept, 64);
}

TEST_F(CudaAllocator, StreamsDoNotShareFreeBlocks) {
  const Stream other;
  std::byte* const mine = take(1000);
  put(mine, 1000);
  {
    const StreamGuard guard(other);
    std::byte* const others = take(1000);
    EXPECT_NE(others, mine);
    put(others, 1000);
  }
  std::byte* const again = take(1000);
  EXPECT_EQ(again, mine);
  put(again, 1000);
}

TEST_F(CudaAllocator, MemoryOfAStreamThatEndedIsEverybodys) {
  std::byte* theirs = nullptr;
  std::byte* held = nullptr;
  {
    const Stream other;
    const StreamGuard guard(other);
    theirs = take(30 * kMiB);
    held = take(1000);
    put(theirs, 30 * kMiB);
  }
  const std::int64_t before = stats().system_allocations;
  std::byte* const mine = take(30 * kMiB);
  EXPECT_EQ(mine, theirs);
  put(held, 1000);
  std::byte* const small = take(1000);
  EXPECT_EQ(small, held);
  EXPECT_EQ(stats().system_allocations, before);
  put(mine, 30 * kMiB);
  put(small, 1000);
}

TEST_F(CudaAllocator, AnotherStreamsUseDelaysReuse) {
  constexpr std::size_t kMuch = 32 * kMiB;
  const Stream other;
  std::byte* const work = take(kMuch);
  std::byte* const block = take(5000);
  caching_allocator(0).record_stream(block, other);
  device().synchronize(0);
  {
    const StreamGuard guard(other);
    for (int i = 0; i < 40; ++i) device().set_zero(work, kMuch, 0);
    device().set_zero(block, 5000, 0);
  }
  put(block, 5000);
  EXPECT_EQ(stats().current, static_cast<std::int64_t>(kMuch));
  std::byte* const early = take(5000);
  EXPECT_NE(early, block) << "reused while the other stream works on it";
  put(early, 5000);
  other.synchronize();
  // The work has run: now both are free, next to each other.
  std::byte* const late = take(2 * 5120);
  EXPECT_EQ(late, std::min(block, early));
  put(late, 2 * 5120);
  put(work, kMuch);
}

TEST_F(CudaAllocator, AStreamThatEndsReleasesWhatItUsed) {
  std::byte* block = nullptr;
  {
    const Stream other;
    block = take(5000);
    caching_allocator(0).record_stream(block, other);
    {
      const StreamGuard guard(other);
      device().set_zero(block, 5000, 0);
    }
    put(block, 5000);
  }
  std::byte* const again = take(5000);
  EXPECT_EQ(again, block);
  {
    const Stream short_lived;
    caching_allocator(0).record_stream(again, short_lived);
  }
  put(again, 5000);  // its other user is gone
}

TEST_F(CudaAllocator, RecordStreamOfTensors) {
  const Stream other;
  const Tensor on_cpu = empty({4}, {.dtype = DType::f32, .device = Device::cpu()});
  EXPECT_NO_THROW(record_stream(on_cpu, other));
  const void* address = nullptr;
  {
    const Tensor tensor = empty({1000}, {.dtype = DType::f32, .device = kDevice});
    address = tensor.impl().data();
    record_stream(tensor, other);
    const StreamGuard guard(other);
    device().set_zero(tensor.impl().data(), 4000, 0);
  }
  EXPECT_EQ(stats().current, 0);
  other.synchronize();
  std::byte* const again = take(4000);
  EXPECT_EQ(again, address);
  put(again, 4000);
}

TEST_F(CudaAllocator, WithoutCachingEveryBlockIsTheSystems) {
  ::setenv("MEZZO_CUDA_CACHE", "0", 1);
  CachingAllocator plain(0);
  ::unsetenv("MEZZO_CUDA_CACHE");
  void* const first = plain.allocate(1000);
  void* const second = plain.allocate(3 * kMiB);
  EXPECT_EQ(plain.stats().system_allocations, 2);
  EXPECT_EQ(plain.stats().reserved, static_cast<std::int64_t>(1024 + 3 * kMiB));
  device().set_zero(second, 3 * kMiB, 0);
  plain.deallocate(first, 1000);
  plain.deallocate(second, 3 * kMiB);
  EXPECT_EQ(plain.stats().reserved, 0);
  EXPECT_EQ(plain.stats().current, 0);
}

TEST_F(CudaAllocator, SummaryNamesStreamsAndSizes) {
  std::byte* const small = take(700);
  std::byte* const large = take(3 * kMiB);
  const std::string text = memory_summary(kDevice);
  for (const char* const part : {"cuda:0: ", "largest free", "default", "shared", "small", "large",
                                 "1.00 KiB", "3.00 MiB", "17.00 MiB", "free on the device"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  put(small, 700);
  put(large, 3 * kMiB);
}

// What the random test below believes about one block.
struct Held {
  std::size_t size;
  unsigned stamp;
  std::size_t stream;
};

std::size_t random_size(std::mt19937& random) {
  switch (random() % 4) {
    case 0:
      return 1 + random() % 2000;
    case 1:
      return 1 + random() % (64 * 1024);
    case 2:
      return 1 + random() % (3 * kMiB);
    default:
      return 1 + random() % (15 * kMiB);
  }
}

TEST_F(CudaAllocator, RandomUseNeverOverlaps) {
  std::mt19937 random(1234);
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(std::make_unique<Stream>());
  std::map<std::byte*, Held> held;
  std::int64_t sum = 0;
  const auto free_one = [&](std::map<std::byte*, Held>::iterator at) {
    const StreamGuard guard(*streams[at->second.stream]);
    const std::size_t stamped = std::min<std::size_t>(at->second.size, 64);
    if (random() % 8 == 0) {
      ASSERT_EQ(read(at->first, stamped), pattern(stamped, at->second.stamp));
    }
    put(at->first, at->second.size);
    sum -= static_cast<std::int64_t>(at->second.size);
    held.erase(at);
  };
  for (unsigned i = 0; i < 6000; ++i) {
    if (held.size() > 60 || (!held.empty() && random() % 2 == 0)) {
      free_one(std::next(held.begin(), static_cast<std::ptrdiff_t>(random() % held.size())));
      continue;
    }
    const Held block{random_size(random), i, random() % streams.size()};
    const StreamGuard guard(*streams[block.stream]);
    std::byte* const memory = take(block.size);
    sum += static_cast<std::int64_t>(block.size);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
    const auto next = held.lower_bound(memory);
    if (next != held.end()) {
      ASSERT_LE(memory + block.size, next->first);
    }
    if (next != held.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second.size, memory);
    }
    write(memory, pattern(std::min<std::size_t>(block.size, 64), block.stamp));
    if (random() % 4 == 0) caching_allocator(0).record_stream(memory, *streams[random() % streams.size()]);
    held.emplace(memory, block);
    ASSERT_EQ(stats().current, sum);
    ASSERT_GE(stats().reserved, sum);
  }
  while (!held.empty()) free_one(held.begin());
}

TEST_F(CudaAllocator, ThreadsAllocateAtOnce) {
  constexpr int kThreads = 4;
  std::mutex mutex;
  std::map<std::byte*, std::size_t> held;
  std::atomic<int> overlaps{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 2000; ++i) {
      const std::size_t size = random_size(random);
      std::byte* const memory = take(size);
      {
        const std::scoped_lock lock(mutex);
        const auto at = held.emplace(memory, size).first;
        if (std::next(at) != held.end() && memory + size > std::next(at)->first) ++overlaps;
        if (at != held.begin() && std::prev(at)->first + std::prev(at)->second > memory) ++overlaps;
      }
      std::this_thread::yield();
      {
        const std::scoped_lock lock(mutex);
        held.erase(memory);
      }
      put(memory, size);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(overlaps.load(), 0);
}

}  // namespace
}  // namespace mezzo::cuda
