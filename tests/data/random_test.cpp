// data::Random: its words are those of Philox, and its distributions have the moments they should.
#include "mezzo/data/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/random/philox.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

TEST(DataRandom, IsAFunctionOfSeedEpochAndPosition) {
  const auto words = [](Random random) {
    std::vector<std::uint32_t> result(9);
    for (std::uint32_t& word : result) word = random.bits();
    return result;
  };
  EXPECT_EQ(words(Random(1, 2, 3)), words(Random(1, 2, 3)));
  std::set<std::vector<std::uint32_t>> different;
  for (std::uint64_t seed : {0U, 1U}) {
    for (std::uint64_t epoch : {0U, 1U}) {
      for (std::uint64_t position : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32U})
        different.insert(words(Random(seed, epoch, position)));
    }
  }
  EXPECT_EQ(different.size(), 12U);
}

TEST(DataRandom, DrawsBlocksOfPhilox) {
  Random random(5, 7, (std::uint64_t{9} << 32U) + 8);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const PhiloxBlock expected = Philox()({{block, 7, 8, 9}}, philox_key(5 + 0x6d657a7a6f646174U));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(random.bits(), expected[i]);
  }
}

/// Mean and variance of n draws.
template <class F>
std::pair<double, double> moments(F draw, int n) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  return {sum / n, squares / n - sum / n * (sum / n)};
}

// Limits are five standard errors of the estimate.
TEST(DataRandom, DistributionsHaveTheirMoments) {
  constexpr int kCount = 100'000;
  const auto check = [](std::pair<double, double> found, double mean, double variance, double kurtosis) {
    EXPECT_NEAR(found.first, mean, 5 * std::sqrt(variance / kCount));
    EXPECT_NEAR(found.second, variance, 5 * variance * std::sqrt((kurtosis - 1) / kCount));
  };
  Random random(1);
  check(moments([&] { return random.uniform(); }, kCount), 0.5, 1.0 / 12, 1.8);
  check(moments([&] { return random.uniform(-3, 5); }, kCount), 1, 64.0 / 12, 1.8);
  check(moments([&] { return random.normal(); }, kCount), 0, 1, 3);
  check(moments([&] { return random.bernoulli(0.25) ? 1.0 : 0.0; }, kCount), 0.25, 0.1875, 2.34);
  check(moments([&] { return static_cast<double>(random.integer(7)); }, kCount), 3, 4, 1.75);
  // Beta(a, b): mean a / (a + b), variance a b / ((a + b)^2 (a + b + 1)).
  check(moments([&] { return random.beta(2, 3); }, kCount), 0.4, 6.0 / (25 * 6), 2.4);
  check(moments([&] { return random.beta(0.4, 0.4); }, kCount), 0.5, 0.16 / (0.64 * 1.8), 1.4);
}

TEST(DataRandom, IntegersReachAllOfALargeRange) {
  Random random(3);
  const std::int64_t bound = (std::int64_t{1} << 62U) + 1;
  std::int64_t largest = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t drawn = random.integer(bound);
    ASSERT_GE(drawn, 0);
    ASSERT_LT(drawn, bound);
    largest = std::max(largest, drawn);
  }
  EXPECT_GT(largest, bound / 2);
  EXPECT_EQ(random.integer(1), 0);
}

TEST(DataRandom, RefusesBadArguments) {
  Random random;
  EXPECT_EQ(test::message_of<ValueError>([&] { static_cast<void>(random.integer(0)); }),
            "Random.integer: expected a bound of at least 1, got 0");
  EXPECT_EQ(test::message_of<ValueError>([&] { static_cast<void>(random.beta(0, 1)); }),
            "Random.beta: expected positive, finite parameters, got 0 and 1");
}

}  // namespace
}  // namespace mezzo::data
