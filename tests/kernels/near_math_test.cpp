// Cheaper forms of functions for part of their arguments: the same bits, or the same bound, as the full form.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "mezzo/kernels/math/log_one_plus_exp.h"
#include "mezzo/kernels/math/math.h"
#include "mezzo/ops/elementary.h"
#include "mezzo/ops/factory.h"

namespace mezzo::kernels {
namespace {

float from_bits(std::uint32_t pattern) { return math::detail::bit_cast<float>(pattern); }
std::uint32_t bits(float x) { return math::detail::bit_cast<std::uint32_t>(x); }

TEST(NearMathTest, SineCosineAndTangentOfNearArgumentsHaveTheirBits) {
  using math::Argument;
  const std::uint32_t limit = bits(math::kNearZero);
  for (std::uint32_t pattern = 0; pattern < limit; pattern += 1009) {
    for (const float x : {from_bits(pattern), -from_bits(pattern)}) {
      ASSERT_EQ(bits(math::sin<Argument::near>(x)), bits(math::sin(x))) << x;
      ASSERT_EQ(bits(math::cos<Argument::near>(x)), bits(math::cos(x))) << x;
      ASSERT_EQ(bits(math::tan<Argument::near>(x)), bits(math::tan(x))) << x;
    }
  }
}

TEST(NearMathTest, AnElementDoesNotDependOnItsNeighbours) {
  const std::vector<float> calm{0.5F, -3.0F, 1e6F, 1.6e7F, -0.0F};
  for (const float far : {3e7F, -1e30F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const auto sines = [](const std::vector<float>& x) { return mezzo::sin(tensor(x)).to_vector<float>(); };
    std::vector<float> x = calm;
    x.push_back(far);
    const std::vector<float> alone = sines(calm), beside = sines(x);
    for (std::size_t i = 0; i < calm.size(); ++i) EXPECT_EQ(bits(alone[i]), bits(beside[i])) << calm[i];
    const double sine = std::sin(static_cast<double>(far));
    if (std::isnan(sine))
      EXPECT_TRUE(std::isnan(beside.back())) << far;
    else
      EXPECT_NEAR(static_cast<double>(beside.back()), sine, 1e-7) << far;
  }
}

TEST(NearMathTest, LogOfOnePlusAFractionStaysWithinOneUlp) {
  for (std::uint32_t pattern = 0; pattern <= bits(1.0F); pattern += 97) {
    const float x = from_bits(pattern), got = scalar::log1p_to_one(x);
    const double want = std::log1p(static_cast<double>(x));
    const auto rounded = static_cast<float>(want);
    const double ulp = static_cast<double>(std::nextafter(rounded, 2.0F)) - static_cast<double>(rounded);
    ASSERT_LE(std::abs(static_cast<double>(got) - want), ulp) << x;
  }
}

}  // namespace
}  // namespace mezzo::kernels
