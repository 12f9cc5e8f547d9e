// Cheaper forms of functions for part of their arguments: the same bits, or the same bound, as the full form.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "mezzo/kernels/pointwise/cpu.h"
#include "mezzo/kernels/pointwise/smooth_activation_math.h"
#include "mezzo/kernels/pointwise/unary_math.h"

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
    std::vector<float> x = calm, alone(calm.size()), beside(calm.size() + 1);
    const auto sines = [](std::vector<float>& in, std::vector<float>& out) {
      const auto n = static_cast<std::int64_t>(in.size());
      cpu::pointwise<float>(scalar::SinFn{}, {out.data(), DType::f32, {n}, {1}},
                            std::array<View, 1>{View{in.data(), DType::f32, {n}, {1}}});
    };
    sines(x, alone);
    x.push_back(far);
    sines(x, beside);
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
