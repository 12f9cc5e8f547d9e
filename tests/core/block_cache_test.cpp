// Which free blocks the CPU's allocator keeps by class.
#include "mezzo/core/memory/block_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace mezzo {
namespace {

using detail::BlockCache;

TEST(BlockCache, AClassWastesAtMostAnEighth) {
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 40U); bytes += 1 + bytes / 97) {
    const std::size_t size = BlockCache::class_size(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_EQ(size % 64, 0U) << bytes;
    ASSERT_EQ(BlockCache::class_size(size), size) << bytes;
    ASSERT_LT(size - bytes, std::max<std::size_t>(64, bytes / 8 + 1)) << bytes;
  }
}

TEST(BlockCache, HandsOutTheNewestOfAClassAndGivesUpTheOldestOfAll) {
  BlockCache cache;
  std::vector<int> blocks(6);
  std::map<int, std::size_t> sizes{{0, 64},  {1, 1152}, {2, 64}, {3, 512}, {4, std::size_t{9} << 30U},
                                   {5, 1152}};
  std::size_t total = 0;
  for (const auto& [i, size] : sizes) {
    cache.put(&blocks[static_cast<std::size_t>(i)], size);
    total += size;
  }
  EXPECT_EQ(cache.bytes(), total);
  EXPECT_EQ(cache.take(64), &blocks[2]);
  EXPECT_EQ(cache.take(128), nullptr);
  for (const int i : {0, 1, 3, 4, 5}) {
    const BlockCache::Block block = cache.take_oldest();
    EXPECT_EQ(block.memory, &blocks[static_cast<std::size_t>(i)]);
    EXPECT_EQ(block.size, sizes[i]) << i;
  }
  EXPECT_EQ(cache.take_oldest().memory, nullptr);
  EXPECT_EQ(cache.bytes(), 0U);
}

// A program that holds a million small tensors and lets them go.
TEST(BlockCache, GivesUpManyBlocksOfAClassInNoTimeThatGrowsWithTheirNumber) {
  BlockCache cache;
  constexpr std::size_t kBlocks = 300'000;
  std::vector<char> blocks(kBlocks);
  for (char& block : blocks) cache.put(&block, 64);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(cache.take_oldest().memory, &blocks[i]);
    if (i % 3 != 0) continue;
    cache.put(&blocks[i], 64);
    ASSERT_EQ(cache.take(64), &blocks[i]);
  }
  EXPECT_EQ(cache.bytes(), 0U);
}

}  // namespace
}  // namespace mezzo
