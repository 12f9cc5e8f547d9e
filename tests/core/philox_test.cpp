// Philox4x32-10 against the published known answers, and the uniforms made from it against what their
// contracts say.
#include "mezzo/core/random/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>

namespace mezzo {
namespace {

struct KnownAnswer {
  PhiloxBlock counter;
  PhiloxKey key;
  PhiloxBlock expected;
};

constexpr bool is_right(const KnownAnswer& answer) {
  const PhiloxBlock block = Philox{}(answer.counter, answer.key);
  for (int i = 0; i < 4; ++i) {
    if (block[i] != answer.expected[i]) return false;
  }
  return true;
}

// The vectors for philox4x32 with 10 rounds that Random123 publishes (kat_vectors): zeros, ones, digits of
// pi.
constexpr KnownAnswer kZeros{{{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}};
constexpr KnownAnswer kOnes{{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
                            {{0xffffffff, 0xffffffff}},
                            {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}};
constexpr KnownAnswer kPi{{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                          {{0xa4093822, 0x299f31d0}},
                          {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};

static_assert(is_right(kZeros), "usable in constants");

TEST(PhiloxTest, GivesThePublishedAnswers) {
  EXPECT_TRUE(is_right(kZeros));
  EXPECT_TRUE(is_right(kOnes));
  EXPECT_TRUE(is_right(kPi));
}

TEST(PhiloxTest, SeedIndexAndStreamTakeTheirWordsLowerFirst) {
  const PhiloxKey key = philox_key(0x299f31d0a4093822);
  EXPECT_EQ(key.words[0], 0xa4093822U);
  EXPECT_EQ(key.words[1], 0x299f31d0U);
  const PhiloxBlock counter = philox_counter(0x85a308d3243f6a88, 0x0370734413198a2e);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(counter[i], kPi.counter[i]);
}

TEST(PhiloxTest, DifferentCountersAndKeysGiveDifferentBlocks) {
  std::set<std::array<std::uint32_t, 4>> blocks;
  const auto add = [&blocks](PhiloxBlock counter, PhiloxKey key) {
    const PhiloxBlock block = Philox{}(counter, key);
    blocks.insert({block[0], block[1], block[2], block[3]});
  };
  constexpr std::uint64_t kCount = 2000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    add(philox_counter(i), philox_key(7));
    add(philox_counter(0, i + 1), philox_key(7));
    add(philox_counter(0), philox_key(i + 100));
  }
  EXPECT_EQ(blocks.size(), 3 * kCount);
}

TEST(PhiloxTest, EveryBitOfTheBlockIsOneHalfOfTheTime) {
  constexpr int kBlocks = 100000;
  std::array<int, 128> ones{};
  for (int i = 0; i < kBlocks; ++i) {
    const PhiloxBlock block = Philox{}(philox_counter(static_cast<std::uint64_t>(i)), philox_key(1));
    for (int bit = 0; bit < 128; ++bit) ones[bit] += (block[bit / 32] >> (bit % 32)) & 1;
  }
  const double deviation = std::sqrt(kBlocks * 0.25);
  for (int bit = 0; bit < 128; ++bit) EXPECT_NEAR(ones[bit], kBlocks * 0.5, 5 * deviation) << "bit " << bit;
}

TEST(UniformTest, Float32HasTwentyFourBitsAndStaysBelowOne) {
  static_assert(uniform_f32(0x80000000U) == 0.5F, "usable in constants");
  EXPECT_EQ(uniform_f32(0), 0.0F);
  EXPECT_EQ(uniform_f32(0xff), 0.0F);  // the lower 8 bits do not count
  EXPECT_EQ(uniform_f32(0x100), 0x1p-24F);
  EXPECT_EQ(uniform_f32(0xffffffff), 1.0F - 0x1p-24F);
}

TEST(UniformTest, Float64HasFiftyThreeBitsAndStaysBelowOne) {
  EXPECT_EQ(uniform_f64(0, 0), 0.0);
  EXPECT_EQ(uniform_f64(0, 0x7ff), 0.0);  // the lower 11 bits do not count
  EXPECT_EQ(uniform_f64(0, 0x800), 0x1p-53);
  EXPECT_EQ(uniform_f64(0xffffffff, 0xffffffff), 1.0 - 0x1p-53);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const PhiloxBlock block = Philox{}(philox_counter(i), philox_key(5));
    const std::uint64_t joined = (std::uint64_t{block[0]} << 32) | block[1];
    EXPECT_EQ(uniform_f64(block[0], block[1]), static_cast<double>(joined >> 11) * 0x1p-53);
  }
}

/// Checks mean, variance and the correlation of neighbours of n uniforms within five standard deviations.
template <class Draw>
void expect_uniform_moments(Draw&& draw) {
  constexpr int kCount = 1000000;
  double sum = 0, square = 0, product = 0, previous = 0.5;
  for (int i = 0; i < kCount; ++i) {
    const double x = draw(static_cast<std::uint64_t>(i));
    ASSERT_TRUE(x >= 0.0 && x < 1.0) << x;
    sum += x - 0.5;
    square += (x - 0.5) * (x - 0.5);
    product += (x - 0.5) * (previous - 0.5);
    previous = x;
  }
  // Var(x) = 1/12, Var((x - 1/2)^2) = 1/80 - 1/144 = 1/180, Var of a product of two independent ones = 1/144.
  EXPECT_NEAR(sum / kCount, 0.0, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(square / kCount, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / kCount));
  EXPECT_NEAR(product / kCount, 0.0, 5 * std::sqrt(1.0 / 144 / kCount));
}

TEST(UniformTest, MomentsAreThoseOfTheUniformDistribution) {
  expect_uniform_moments([](std::uint64_t i) {
    return static_cast<double>(
        uniform_f32(Philox{}(philox_counter(i / 4), philox_key(11))[static_cast<int>(i % 4)]));
  });
  expect_uniform_moments([](std::uint64_t i) {
    const PhiloxBlock block = Philox{}(philox_counter(i, 1), philox_key(12));
    return uniform_f64(block[2], block[3]);
  });
}

}  // namespace
}  // namespace mezzo
