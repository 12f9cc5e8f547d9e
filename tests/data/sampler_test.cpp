// Orders of all samplers: which indices, how often, and that they are functions of seed and epoch.
#include "mezzo/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using Indices = std::vector<std::int64_t>;
using test::message_of;

Indices order_of(const Sampler& sampler, std::uint64_t epoch = 0) {
  const Order order = sampler.order(epoch);
  EXPECT_EQ(order.size(), sampler.size());
  Indices indices;
  for (std::int64_t i = 0; i < order.size(); ++i) indices.push_back(order[i]);
  return indices;
}

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

Indices range(std::int64_t size) {
  Indices indices;
  for (std::int64_t i = 0; i < size; ++i) indices.push_back(i);
  return indices;
}

TEST(Samplers, SequentialCounts) {
  EXPECT_EQ(order_of(SequentialSampler(4)), range(4));
  EXPECT_EQ(order_of(SequentialSampler(0)), Indices());
}

TEST(Samplers, RandomIsAPermutationThatEpochAndSeedChange) {
  const Sampler sampler = RandomSampler(100, {.seed = 3});
  std::set<Indices> orders;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const Indices order = order_of(sampler, epoch);
    EXPECT_EQ(sorted(order), range(100));
    EXPECT_EQ(order, order_of(RandomSampler(100, {.seed = 3}), epoch)) << "not a function of the seed";
    orders.insert(order);
  }
  orders.insert(order_of(RandomSampler(100, {.seed = 4})));
  EXPECT_EQ(orders.size(), 6U);
}

/// Whether counts of n draws from equally likely outcomes are plausible: the chi-square statistic is below
/// its mean plus six deviations.
void expect_uniform(const std::map<Indices, int>& counts, std::size_t outcomes, int n) {
  const double expected = static_cast<double>(n) / static_cast<double>(outcomes);
  double chi = static_cast<double>(outcomes - counts.size()) * expected;
  for (const auto& [outcome, count] : counts) chi += (count - expected) * (count - expected) / expected;
  const auto freedom = static_cast<double>(outcomes - 1);
  EXPECT_LT(chi, freedom + 6 * std::sqrt(2 * freedom));
}

TEST(Samplers, AllPermutationsAreEquallyLikely) {
  constexpr int kEpochs = 24'000;
  std::map<Indices, int> counts;
  const Sampler sampler = RandomSampler(4);
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) ++counts[order_of(sampler, epoch)];
  expect_uniform(counts, 24, kEpochs);
}

TEST(Samplers, RandomWithReplacementAndCounts) {
  EXPECT_EQ(order_of(RandomSampler(10, {.num_samples = 4})).size(), 4U);
  const Indices few = order_of(RandomSampler(10, {.num_samples = 4}));
  EXPECT_EQ(std::set<std::int64_t>(few.begin(), few.end()).size(), 4U);
  std::map<Indices, int> counts;
  for (const std::int64_t index : order_of(RandomSampler(5, {.replacement = true, .num_samples = 5000})))
    ++counts[{index}];
  expect_uniform(counts, 5, 5000);
}

TEST(Samplers, WeightedDrawsByWeight) {
  const std::vector<double> weights{0, 1, 3, 0};
  int threes = 0;
  const Indices drawn = order_of(WeightedRandomSampler(weights, 4000));
  for (const std::int64_t index : drawn) {
    ASSERT_TRUE(index == 1 || index == 2) << index;
    threes += index == 2 ? 1 : 0;
  }
  EXPECT_NEAR(threes, 3000, 5 * std::sqrt(4000 * 0.75 * 0.25));
}

TEST(Samplers, WeightedWithoutReplacementDrawsTheFirstByWeight) {
  const std::vector<double> weights{1, 0, 2, 5};
  const Sampler sampler = WeightedRandomSampler(weights, 3, {.replacement = false});
  constexpr int kEpochs = 4000;
  int first_is_3 = 0, second_is_2 = 0;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Indices order = order_of(sampler, epoch);
    ASSERT_EQ(sorted(order), (Indices{0, 2, 3}));
    if (order[0] != 3) continue;
    ++first_is_3;
    second_is_2 += order[1] == 2 ? 1 : 0;
  }
  EXPECT_NEAR(first_is_3, kEpochs * 5.0 / 8, 5 * std::sqrt(kEpochs * 0.25));
  EXPECT_NEAR(second_is_2, first_is_3 * 2.0 / 3, 5 * std::sqrt(first_is_3 * 0.25));
}

TEST(Samplers, SubsetRandomShufflesItsIndices) {
  const Sampler sampler = SubsetRandomSampler({7, 3, 9, 11, 20}, 1);
  EXPECT_EQ(sorted(order_of(sampler)), (Indices{3, 7, 9, 11, 20}));
  EXPECT_NE(order_of(sampler, 0), order_of(sampler, 1));
}

TEST(Samplers, AreMadeOfIndicesAndFunctions) {
  EXPECT_EQ(order_of(Sampler(Indices{4, 4, 1})), (Indices{4, 4, 1}));
  const Sampler sampler([](std::uint64_t epoch) { return Indices{static_cast<std::int64_t>(epoch), 7}; });
  EXPECT_EQ(order_of(sampler, 5), (Indices{5, 7}));
  const Sampler uneven([](std::uint64_t epoch) { return Indices(epoch + 1, 0); });
  EXPECT_EQ(message_of<ValueError>([&] { static_cast<void>(uneven.order(2)); }),
            "Sampler: expected 1 indices in epoch 2, got 3; return as many in every epoch");
}

TEST(Samplers, DistributedSharesAreOneOrder) {
  for (const std::int64_t size : {1, 7, 12, 100}) {
    const Indices whole = order_of(DistributedSampler(size, {.seed = 2}), 3);
    EXPECT_EQ(sorted(whole), range(size));
    for (const std::int64_t ranks : {2, 3, 4, 8}) {
      // Places one after the other, one of each rank: the order of a single process, and its first ones
      // again.
      const std::int64_t each = (size + ranks - 1) / ranks;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const Sampler sampler = DistributedSampler(size, {.num_replicas = ranks, .rank = rank, .seed = 2});
        const Indices share = order_of(sampler, 3);
        ASSERT_EQ(static_cast<std::int64_t>(share.size()), each);
        for (std::int64_t i = 0; i < each; ++i) {
          const std::int64_t place = i * ranks + rank;
          EXPECT_EQ(sampler.global_position(i), place);
          EXPECT_EQ(share[static_cast<std::size_t>(i)], whole[static_cast<std::size_t>(place % size)]);
        }
      }
    }
  }
  EXPECT_EQ(
      order_of(DistributedSampler(7, {.num_replicas = 3, .rank = 2, .shuffle = false, .drop_last = true})),
      (Indices{2, 5}));
}

TEST(Samplers, RefuseBadArguments) {
  EXPECT_EQ(message_of<ValueError>([] { static_cast<void>(RandomSampler(3, {.num_samples = 4})); }),
            "RandomSampler: expected num_samples from 0 to 3 without replacement, got 4; set replacement");
  EXPECT_EQ(message_of<ValueError>([] { static_cast<void>(SequentialSampler(-1)); }),
            "SequentialSampler: expected a size of at least 0, got -1");
  const std::vector<double> bad{1, NAN}, none{0, 0}, one{0, 2};
  EXPECT_EQ(message_of<ValueError>([&] { static_cast<void>(WeightedRandomSampler(bad, 1)); }),
            "WeightedRandomSampler: expected weights that are finite and not negative, got nan");
  EXPECT_EQ(message_of<ValueError>([&] { static_cast<void>(WeightedRandomSampler(none, 1)); }),
            "WeightedRandomSampler: expected weights with a positive, finite sum, got 0; scale them");
  EXPECT_EQ(message_of<ValueError>(
                [&] { static_cast<void>(WeightedRandomSampler(one, 2, {.replacement = false})); }),
            "WeightedRandomSampler: expected num_samples from 0 to 1, as many as have a weight, without "
            "replacement, "
            "got 2; set replacement");
  EXPECT_EQ(
      message_of<ValueError>(
          [] { static_cast<void>(DistributedSampler(3, {.num_replicas = 2, .rank = 2})); }),
      "DistributedSampler: expected a rank from 0 to num_replicas - 1, got rank 2 of 2; count ranks from 0");
  EXPECT_EQ(message_of<ValueError>([] { static_cast<void>(Sampler().size()); }),
            "Sampler: expected a sampler, got none; make one, say RandomSampler(size)");
}

}  // namespace
}  // namespace mezzo::data
