// Float8E4M3 and Float8E5M2 against an oracle that shares nothing with the conversions: the table of all
// values of a format, written from the definition of its fields, and a search for the nearest one
// (float16_test.cpp does so for 16 bits). Separate from dtype tests because no tensor is involved.
#include "mezzo/core/float8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace mezzo {
namespace {

static_assert(std::is_trivially_copyable_v<Float8E4M3> && std::is_trivially_copyable_v<Float8E5M2>);
static_assert(std::is_trivially_default_constructible_v<Float8E4M3> && std::is_standard_layout_v<Float8E5M2>);
static_assert(!std::is_convertible_v<float, Float8E4M3> && !std::is_convertible_v<Float8E4M3, float>,
              "conversions are explicit");
static_assert(static_cast<float>(Float8E4M3(1.5F)) == 1.5F && static_cast<float>(Float8E5M2(-2.5)) == -2.5F,
              "usable in constants");
static_assert(Float8E4M3{}.bits == 0 && Float8E5M2{}.bits == 0);

/// What the tests need to know of a format, from its definition alone.
template <class T>
struct Float8Format;

template <>
struct Float8Format<Float8E4M3> {
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr int kLast = 0x7e;  ///< the largest value; only 0x7f is beyond, NaN
};

template <>
struct Float8Format<Float8E5M2> {
  static constexpr int kMantissaBits = 2;
  static constexpr int kBias = 15;
  static constexpr int kLast = 0x7c;  ///< infinity; NaNs are beyond
};

template <class T>
constexpr int kLastPattern = Float8Format<T>::kLast;
template <class T>
constexpr bool kHasInfinity = std::is_same_v<T, Float8E5M2>;

/// The value of a non-negative pattern below NaN; that of infinity counts as the next power of two, where
/// rounding to infinity begins to count from.
template <class T>
double float8_value(int pattern) {
  using Format = Float8Format<T>;
  const int exponent = pattern >> Format::kMantissaBits;
  const int mantissa = pattern & ((1 << Format::kMantissaBits) - 1);
  return std::ldexp(mantissa + (exponent > 0 ? (1 << Format::kMantissaBits) : 0),
                    std::max(exponent, 1) - Format::kBias - Format::kMantissaBits);
}

template <class T>
bool is_nan8(int pattern) {
  return (pattern & 0x7f) > kLastPattern<T>;
}

/// Rounds what is no NaN by search: a pattern is even exactly when its last mantissa bit is 0.
template <class T>
class Float8Oracle {
 public:
  Float8Oracle() {
    for (int pattern = 0; pattern <= kLastPattern<T>; ++pattern) values_.push_back(float8_value<T>(pattern));
  }

  int operator()(double x) const {
    const double size = std::fabs(x);
    const int sign = std::signbit(x) ? 0x80 : 0;
    if (std::isinf(x) && !kHasInfinity<T>) return 0x7f | sign;
    const auto above = std::upper_bound(values_.begin(), values_.end(), size);
    if (above == values_.end()) return kLastPattern<T> | sign;
    const int low = static_cast<int>(above - values_.begin()) - 1;
    const double middle = (values_[low] + values_[low + 1]) / 2;  // exact in double
    const bool up = size > middle || (size == middle && low % 2 == 1);
    return (up ? low + 1 : low) | sign;
  }

 private:
  std::vector<double> values_;
};

template <class T>
class Float8Test : public ::testing::Test {};

struct Float8Names {
  template <class T>
  static std::string GetName(int) {
    return kHasInfinity<T> ? "E5M2" : "E4M3";
  }
};
using Float8Types = ::testing::Types<Float8E4M3, Float8E5M2>;
TYPED_TEST_SUITE(Float8Test, Float8Types, Float8Names);

TYPED_TEST(Float8Test, EveryPatternDecodesToTheValueOfItsFieldsAndBack) {
  for (int pattern = 0; pattern < 0x100; ++pattern) {
    const TypeParam x = TypeParam::from_bits(static_cast<std::uint8_t>(pattern));
    const auto as_float = static_cast<float>(x);
    const auto as_double = static_cast<double>(x);
    const int back = TypeParam(as_float).bits, back_from_double = TypeParam(as_double).bits;
    ASSERT_EQ(std::signbit(as_float), pattern >= 0x80) << pattern;
    if (is_nan8<TypeParam>(pattern)) {
      ASSERT_TRUE(std::isnan(as_float) && std::isnan(as_double)) << pattern;
      // A NaN stays a NaN of its sign and is quiet afterwards: the highest mantissa bit is set.
      const int quiet = 1 << (Float8Format<TypeParam>::kMantissaBits - 1);
      ASSERT_EQ(back, pattern | quiet);
      ASSERT_EQ(back_from_double, pattern | quiet);
      continue;
    }
    if (kHasInfinity<TypeParam> && (pattern & 0x7f) == kLastPattern<TypeParam>)
      ASSERT_TRUE(std::isinf(as_float) && std::isinf(as_double)) << pattern;
    else
      ASSERT_EQ(std::fabs(as_double), float8_value<TypeParam>(pattern & 0x7f)) << pattern;
    ASSERT_EQ(static_cast<double>(as_float), as_double) << pattern;
    ASSERT_EQ(back, pattern);
    ASSERT_EQ(back_from_double, pattern);
  }
}

TYPED_TEST(Float8Test, EveryMidpointAndItsNeighboursRoundAsTheNearestValueSays) {
  const Float8Oracle<TypeParam> oracle;
  for (int pattern = 0; pattern < kLastPattern<TypeParam>; ++pattern) {
    const double middle = (float8_value<TypeParam>(pattern) + float8_value<TypeParam>(pattern + 1)) / 2;
    const auto middle_float = static_cast<float>(middle);  // exact
    for (const double direction : {-HUGE_VAL, 0.0, HUGE_VAL}) {
      const double near = direction == 0 ? middle : std::nextafter(middle, direction);
      const float near_float =
          direction == 0 ? middle_float : std::nextafter(middle_float, static_cast<float>(direction));
      for (const double x : {near, -near}) ASSERT_EQ(TypeParam(x).bits, oracle(x)) << std::hexfloat << x;
      for (const float x : {near_float, -near_float})
        ASSERT_EQ(TypeParam(x).bits, oracle(static_cast<double>(x))) << std::hexfloat << x;
    }
  }
}

TYPED_TEST(Float8Test, NumbersOfTheWholeRangeRoundAsTheNearestValueSays) {
  const Float8Oracle<TypeParam> oracle;
  constexpr std::uint64_t kStride = 1499;  // prime: all exponents with changing mantissas
  for (std::uint64_t pattern = 0; pattern < (std::uint64_t{1} << 32); pattern += kStride) {
    const auto x = detail::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    const auto wide = static_cast<double>(x);
    if (std::isnan(x)) {
      ASSERT_TRUE(is_nan8<TypeParam>(TypeParam(x).bits) && is_nan8<TypeParam>(TypeParam(wide).bits))
          << pattern;
      ASSERT_EQ(TypeParam(x).bits >> 7, static_cast<int>(pattern >> 31));
    } else {
      ASSERT_EQ(TypeParam(x).bits, oracle(wide)) << std::hexfloat << x;
      ASSERT_EQ(TypeParam(wide).bits, oracle(wide)) << std::hexfloat << x;
    }
  }
  const double huge = std::numeric_limits<double>::max(), tiny = std::numeric_limits<double>::denorm_min();
  for (const double x : {huge, -huge, tiny, -tiny, 1e-300, 1e300, HUGE_VAL, -HUGE_VAL, 0.0, -0.0})
    EXPECT_EQ(TypeParam(x).bits, oracle(x)) << std::hexfloat << x;
}

TYPED_TEST(Float8Test, DoubleIsRoundedOnceAndNotThroughFloat) {
  // Just above the middle of 1 and the next value, by less than float can see.
  const double above = 1.0 + std::ldexp(1.0, -Float8Format<TypeParam>::kMantissaBits - 1) + 0x1p-40;
  ASSERT_EQ(TypeParam(static_cast<float>(above)), TypeParam(1.0F));
  EXPECT_EQ(static_cast<double>(TypeParam(above)), 1.0 + static_cast<double>(TypeParam::epsilon()));
  const auto smallest = static_cast<double>(TypeParam::min_subnormal());
  EXPECT_EQ(TypeParam(smallest * (0.5 + 0x1p-40)).bits, 1);
  EXPECT_EQ(TypeParam(smallest * (1.5 - 0x1p-40)).bits, 1);
}

TEST(Float8, WhatIsBeyondTheRange) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float x : {448.0F, 449.0F, 464.0F, 480.0F, 512.0F, 1e30F, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(Float8E4M3(x), Float8E4M3::max()) << x;
    EXPECT_EQ(Float8E4M3(-x), Float8E4M3::lowest()) << x;
  }
  EXPECT_EQ(Float8E4M3(kInf), Float8E4M3::quiet_nan());
  EXPECT_EQ(Float8E4M3(-kInf).bits, 0xff);
  EXPECT_EQ(Float8E4M3(std::nanf("")), Float8E4M3::quiet_nan());
  EXPECT_EQ(Float8E5M2(61439.0F), Float8E5M2::max());
  EXPECT_EQ(Float8E5M2(61440.0F), Float8E5M2::infinity());
  EXPECT_EQ(Float8E5M2(-kInf).bits, 0xfc);
  // A payload in the bits that are dropped must not leave infinity behind.
  EXPECT_EQ(Float8E5M2(detail::bit_cast<float>(0x7f800001U)), Float8E5M2::quiet_nan());
}

TEST(Float8, LimitsAreThoseOfThePaper) {
  EXPECT_EQ(static_cast<float>(Float8E4M3::max()), 448.0F);
  EXPECT_EQ(static_cast<float>(Float8E4M3::lowest()), -448.0F);
  EXPECT_EQ(static_cast<float>(Float8E4M3::min_normal()), 0x1p-6F);
  EXPECT_EQ(static_cast<float>(Float8E4M3::min_subnormal()), 0x1p-9F);
  EXPECT_EQ(static_cast<float>(Float8E4M3::epsilon()), 0x1p-3F);
  EXPECT_TRUE(std::isnan(static_cast<float>(Float8E4M3::quiet_nan())));
  EXPECT_EQ(static_cast<float>(Float8E5M2::max()), 57344.0F);
  EXPECT_EQ(static_cast<float>(Float8E5M2::lowest()), -57344.0F);
  EXPECT_EQ(static_cast<float>(Float8E5M2::min_normal()), 0x1p-14F);
  EXPECT_EQ(static_cast<float>(Float8E5M2::min_subnormal()), 0x1p-16F);
  EXPECT_EQ(static_cast<float>(Float8E5M2::epsilon()), 0x1p-2F);
  EXPECT_EQ(static_cast<float>(Float8E5M2::infinity()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(static_cast<float>(Float8E5M2::quiet_nan())));
}

}  // namespace
}  // namespace mezzo
