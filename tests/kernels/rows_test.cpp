// The memory that row-wise kernels work in: a thread gets its own back, and nobody else's.
#include "mezzo/kernels/cpu/rows.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace mezzo::kernels::cpu {
namespace {

TEST(RowScratch, AThreadGetsBackWhatItGaveBack) {
  const float* first = nullptr;
  {
    const RowScratch<float> scratch(4096);
    first = scratch.data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
  }
  const RowScratch<float> again(4000);  // of the same size but for what is rounded up
  EXPECT_EQ(again.data(), first);
}

TEST(RowScratch, OfAnotherThreadIsOther) {
  const void* here = nullptr;
  { here = RowScratch<double>(512).data(); }
  const void* there = nullptr;
  std::thread([&] {
    const RowScratch<double> scratch(512);
    there = scratch.data();
  }).join();
  EXPECT_NE(there, nullptr);
  EXPECT_NE(there, here);
}

TEST(RowScratch, BlocksThatLiveTogetherAreApart) {
  for (int round = 0; round < 2; ++round) {  // the second finds more of them than a thread keeps
    const RowScratch<float> a(64), b(64), c(64), d(64), e(64), f(64);
    const std::set<const float*> all{a.data(), b.data(), c.data(), d.data(), e.data(), f.data()};
    EXPECT_EQ(all.size(), 6U);
    for (float* block : {a.data(), b.data(), c.data(), d.data(), e.data(), f.data()})
      block[63] = block[0] = 1;
  }
}

TEST(RowScratch, OfNoElementsAndOfMany) {
  EXPECT_EQ(RowScratch<float>(0).data(), nullptr);
  for (const std::int64_t count : {1, 16384, 16385, 1 << 20}) {  // 16384 are the most that are kept
    const RowScratch<float> scratch(count);
    scratch.data()[0] = scratch.data()[count - 1] = 1;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(scratch.data()) % 64, 0U) << count;
  }
}

}  // namespace
}  // namespace mezzo::kernels::cpu
