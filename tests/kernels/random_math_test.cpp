// Normal random numbers: their moments, and each value against the formula in double.
#include "mezzo/kernels/random/random_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "mezzo/core/random/philox.h"

namespace mezzo::kernels {
namespace {

constexpr double kTwoPi = 6.283185307179586;

NormalPair draw(std::uint64_t index) {
  const PhiloxBlock block = Philox{}(philox_counter(index), philox_key(2026));
  return normal_pair(block[0], block[1]);
}

double ulp(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, exponent - 24);
}

TEST(NormalTest, EachValueIsTheFormulaInDoubleWithinFiveUlp) {
  double worst = 0;
  for (std::uint64_t i = 0; i < 1000000; ++i) {
    const PhiloxBlock block = Philox{}(philox_counter(i), philox_key(3));
    const NormalPair got = normal_pair(block[0], block[1]);
    const float u = static_cast<float>(block[0]) * 0x1p-32F + 0x1p-33F;
    const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(u)));
    const double angle = kTwoPi * 0x1p-32 * block[1];
    const double first = radius * std::cos(angle), second = radius * std::sin(angle);
    // At multiples of a quarter turn the double angle itself is off; there the value is compared on the scale
    // of 1e-9.
    worst = std::max(worst, std::fabs(static_cast<double>(got.first) - first) / std::max(ulp(first), 1e-15));
    worst =
        std::max(worst, std::fabs(static_cast<double>(got.second) - second) / std::max(ulp(second), 1e-15));
  }
  EXPECT_LE(worst, 5.0);
  RecordProperty("max_ulp", std::to_string(worst));
}

TEST(NormalTest, QuarterTurnsAreExactAndTheRadiusIsFinite) {
  const NormalPair largest = normal_pair(0, 0);
  EXPECT_NEAR(static_cast<double>(largest.first), std::sqrt(66 * std::log(2.0)), 1e-6);
  EXPECT_EQ(largest.second, 0.0F);
  const NormalPair quarter = normal_pair(0, 0x40000000U);
  EXPECT_EQ(quarter.first, 0.0F);
  EXPECT_EQ(quarter.second, largest.first);
  EXPECT_EQ(normal_pair(0, 0x80000000U).first, -largest.first);
  EXPECT_EQ(normal_pair(0, 0xc0000000U).second, -largest.first);
  const NormalPair smallest = normal_pair(0xffffffffU, 0x20000000U);
  EXPECT_EQ(smallest.first, 0.0F);
  EXPECT_EQ(smallest.second, 0.0F);
}

TEST(NormalTest, MomentsAreThoseOfTheStandardNormalDistribution) {
  constexpr int kPairs = 1000000;
  double sum = 0, square = 0, cube = 0, fourth = 0, product = 0;
  int beyond_three = 0;
  for (int i = 0; i < kPairs; ++i) {
    const NormalPair pair = draw(static_cast<std::uint64_t>(i));
    product += static_cast<double>(pair.first) * static_cast<double>(pair.second);
    for (const double x : {static_cast<double>(pair.first), static_cast<double>(pair.second)}) {
      sum += x;
      square += x * x;
      cube += x * x * x;
      fourth += x * x * x * x;
      beyond_three += std::fabs(x) > 3.0 ? 1 : 0;
    }
  }
  // Variances of x, x^2, x^3, x^4 are 1, 2, 15, 96; five standard deviations each.
  constexpr double kCount = 2.0 * kPairs;
  EXPECT_NEAR(sum / kCount, 0.0, 5 * std::sqrt(1 / kCount));
  EXPECT_NEAR(square / kCount, 1.0, 5 * std::sqrt(2 / kCount));
  EXPECT_NEAR(cube / kCount, 0.0, 5 * std::sqrt(15 / kCount));
  EXPECT_NEAR(fourth / kCount, 3.0, 5 * std::sqrt(96 / kCount));
  EXPECT_NEAR(product / kPairs, 0.0, 5 * std::sqrt(1.0 / kPairs));
  const double tail = std::erfc(3.0 / std::sqrt(2.0));
  EXPECT_NEAR(beyond_three / kCount, tail, 5 * std::sqrt(tail / kCount));
}

}  // namespace
}  // namespace mezzo::kernels
