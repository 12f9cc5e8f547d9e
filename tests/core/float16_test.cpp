// Half and BFloat16 against an oracle that shares nothing with the conversions: the table of all values of a
// format, written from the definition of its fields, and a search for the nearest one. Separate from dtype
// tests because no tensor is involved.
#include "mezzo/core/float16.h"

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

static_assert(std::is_trivially_copyable_v<Half> && std::is_trivially_copyable_v<BFloat16>);
static_assert(std::is_trivially_default_constructible_v<Half> && std::is_standard_layout_v<Half>);
static_assert(!std::is_convertible_v<float, Half> && !std::is_convertible_v<Half, float>,
              "conversions are explicit");
static_assert(static_cast<float>(Half(1.5F)) == 1.5F && static_cast<float>(BFloat16(-2.5)) == -2.5F,
              "usable in constants");
static_assert(Half{}.bits == 0 && BFloat16{}.bits == 0);

/// What the tests need to know of a format, from its definition alone.
template <class T>
struct Format;

template <>
struct Format<Half> {
  static constexpr int kExponentBits = 5;
  static constexpr int kMantissaBits = 10;
};

template <>
struct Format<BFloat16> {
  static constexpr int kExponentBits = 8;
  static constexpr int kMantissaBits = 7;
};

template <class T>
constexpr int kInfinityPattern = ((1 << Format<T>::kExponentBits) - 1) << Format<T>::kMantissaBits;

/// The value of a non-negative pattern below NaN; the pattern of infinity counts as the next power of two, as
/// if the exponent range went on, because that is where rounding to infinity begins to count from.
template <class T>
double value_of_pattern(int pattern) {
  const int bias = (1 << (Format<T>::kExponentBits - 1)) - 1;
  const int exponent = pattern >> Format<T>::kMantissaBits;
  const int mantissa = pattern & ((1 << Format<T>::kMantissaBits) - 1);
  const int last_place = std::max(exponent, 1) - bias - Format<T>::kMantissaBits;
  return std::ldexp(mantissa + (exponent > 0 ? (1 << Format<T>::kMantissaBits) : 0), last_place);
}

/// Rounds by search: a pattern is even exactly when its last mantissa bit is 0.
template <class T>
class NearestOracle {
 public:
  NearestOracle() {
    for (int pattern = 0; pattern <= kInfinityPattern<T>; ++pattern)
      values_.push_back(value_of_pattern<T>(pattern));
  }

  std::uint16_t operator()(double x) const {
    const double size = std::fabs(x);
    const int sign = std::signbit(x) ? 0x8000 : 0;
    const auto above = std::upper_bound(values_.begin(), values_.end(), size);
    if (above == values_.end()) return static_cast<std::uint16_t>(kInfinityPattern<T> | sign);
    const int low = static_cast<int>(above - values_.begin()) - 1;
    const double middle = (values_[low] + values_[low + 1]) / 2;  // exact in double
    const bool up = size > middle || (size == middle && low % 2 == 1);
    return static_cast<std::uint16_t>((up ? low + 1 : low) | sign);
  }

 private:
  std::vector<double> values_;
};

template <class T>
class Float16Test : public ::testing::Test {};

struct TypeNames {
  template <class T>
  static std::string GetName(int) {
    return std::is_same_v<T, Half> ? "Half" : "BFloat16";
  }
};

using StorageTypes = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(Float16Test, StorageTypes, TypeNames);

template <class T>
bool is_nan_pattern(int pattern) {
  return (pattern & 0x7fff) > kInfinityPattern<T>;
}

TYPED_TEST(Float16Test, EveryPatternDecodesToTheValueOfItsFields) {
  for (int pattern = 0; pattern < 0x10000; ++pattern) {
    const TypeParam x = TypeParam::from_bits(static_cast<std::uint16_t>(pattern));
    const auto as_float = static_cast<float>(x);
    const auto as_double = static_cast<double>(x);
    ASSERT_EQ(std::signbit(as_float), pattern >= 0x8000) << pattern;
    if (is_nan_pattern<TypeParam>(pattern)) {
      ASSERT_TRUE(std::isnan(as_float) && std::isnan(as_double)) << pattern;
      // The payload moves to the upper bits of float's mantissa, whose highest bit makes it quiet.
      const std::uint32_t payload = static_cast<std::uint32_t>(pattern)
                                    << (23 - Format<TypeParam>::kMantissaBits);
      ASSERT_EQ(detail::bit_cast<std::uint32_t>(as_float) & 0x7fffffU, (payload & 0x7fffffU) | 0x400000U);
    } else if ((pattern & 0x7fff) == kInfinityPattern<TypeParam>) {
      ASSERT_TRUE(std::isinf(as_float) && std::isinf(as_double)) << pattern;
    } else {
      ASSERT_EQ(std::fabs(as_double), value_of_pattern<TypeParam>(pattern & 0x7fff)) << pattern;
      ASSERT_EQ(static_cast<double>(as_float), as_double) << pattern;
    }
  }
}

TYPED_TEST(Float16Test, EveryPatternSurvivesTheRoundTripThroughFloatAndDouble) {
  for (int pattern = 0; pattern < 0x10000; ++pattern) {
    const TypeParam x = TypeParam::from_bits(static_cast<std::uint16_t>(pattern));
    const TypeParam through_float(static_cast<float>(x));
    const TypeParam through_double(static_cast<double>(x));
    if (is_nan_pattern<TypeParam>(pattern)) {
      // A NaN stays a NaN of its sign and is quiet afterwards: the highest mantissa bit is set.
      const int quiet = 1 << (Format<TypeParam>::kMantissaBits - 1);
      ASSERT_EQ(through_float.bits, pattern | quiet);
      ASSERT_TRUE(is_nan_pattern<TypeParam>(through_double.bits) && (through_double.bits & quiet) != 0)
          << pattern;
    } else {
      ASSERT_EQ(through_float.bits, pattern);
      ASSERT_EQ(through_double.bits, pattern);
    }
  }
}

TYPED_TEST(Float16Test, EveryMidpointAndItsNeighboursRoundAsTheNearestValueSays) {
  const NearestOracle<TypeParam> oracle;
  for (int pattern = 0; pattern < kInfinityPattern<TypeParam>; ++pattern) {
    const double middle =
        (value_of_pattern<TypeParam>(pattern) + value_of_pattern<TypeParam>(pattern + 1)) / 2;
    for (const double sign : {1.0, -1.0}) {
      for (const double direction : {-1.0, 0.0, 1.0}) {
        const double near = direction == 0.0 ? middle : std::nextafter(middle, direction * 1e300);
        ASSERT_EQ(TypeParam(sign * near).bits, oracle(sign * near)) << std::hexfloat << sign * near;
        const auto middle_float = static_cast<float>(middle);  // exact
        const float near_float =
            direction == 0.0 ? middle_float : std::nextafter(middle_float, direction < 0 ? -1.0F : HUGE_VALF);
        ASSERT_EQ(TypeParam(static_cast<float>(sign) * near_float).bits, oracle(sign * near_float))
            << std::hexfloat << sign * near_float;
      }
    }
  }
}

TYPED_TEST(Float16Test, FloatsOfTheWholeRangeRoundAsTheNearestValueSays) {
  const NearestOracle<TypeParam> oracle;
  constexpr std::uint64_t kStride = 1499;  // prime: all exponents with changing mantissas
  for (std::uint64_t pattern = 0; pattern < (std::uint64_t{1} << 32); pattern += kStride) {
    const auto x = detail::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    if (std::isnan(x)) {
      ASSERT_TRUE(is_nan_pattern<TypeParam>(TypeParam(x).bits)) << pattern;
    } else {
      ASSERT_EQ(TypeParam(x).bits, oracle(x)) << std::hexfloat << x;
      ASSERT_EQ(TypeParam(static_cast<double>(x)).bits, oracle(x)) << std::hexfloat << x;
    }
  }
}

TYPED_TEST(Float16Test, DoublesOutsideTheRangeOfFloatRoundAsTheNearestValueSays) {
  const NearestOracle<TypeParam> oracle;
  const double huge = std::numeric_limits<double>::max();
  const double tiny = std::numeric_limits<double>::denorm_min();
  for (const double x :
       {huge, -huge, tiny, -tiny, 1e-300, 1e300, 0x1p-1022, HUGE_VAL, -HUGE_VAL, 0.0, -0.0}) {
    EXPECT_EQ(TypeParam(x).bits, oracle(x)) << std::hexfloat << x;
  }
}

TYPED_TEST(Float16Test, DoubleIsRoundedOnceAndNotThroughFloat) {
  // Just above the middle of 1 and the next value, by less than float can see: through float it becomes a
  // tie.
  const double middle = 1.0 + std::ldexp(1.0, -Format<TypeParam>::kMantissaBits - 1);
  const double above = middle + 0x1p-40;
  ASSERT_EQ(TypeParam(static_cast<float>(above)), TypeParam(1.0F));
  EXPECT_EQ(static_cast<double>(TypeParam(above)), 1.0 + static_cast<double>(TypeParam::epsilon()));
  // The same below the middle of an odd value and its successor, and among the subnormals.
  const double odd_middle = 1.0 + std::ldexp(3.0, -Format<TypeParam>::kMantissaBits - 1);
  EXPECT_EQ(TypeParam(odd_middle - 0x1p-40).bits, TypeParam(1.0).bits + 1);
  const auto smallest = static_cast<double>(TypeParam::min_subnormal());
  EXPECT_EQ(TypeParam(smallest * (0.5 + 0x1p-40)).bits, 1);
  EXPECT_EQ(TypeParam(smallest * (1.5 - 0x1p-40)).bits, 1);
}

TYPED_TEST(Float16Test, NanStaysNanEvenWhenItsPayloadIsInTheBitsThatAreDropped) {
  for (const std::uint32_t pattern : {0x7f800001U, 0xff800001U, 0x7fffffffU, 0x7fc00000U, 0xffc00000U}) {
    const TypeParam x(detail::bit_cast<float>(pattern));
    EXPECT_TRUE(is_nan_pattern<TypeParam>(x.bits)) << std::hex << pattern;
    EXPECT_EQ(x.bits >> 15, pattern >> 31) << std::hex << pattern;
  }
  for (const std::uint64_t pattern : {0x7ff0000000000001U, 0xfff0000000000001U, 0xffffffffffffffffU}) {
    const TypeParam x(detail::bit_cast<double>(pattern));
    EXPECT_TRUE(is_nan_pattern<TypeParam>(x.bits)) << std::hex << pattern;
    EXPECT_EQ(x.bits >> 15, pattern >> 63) << std::hex << pattern;
  }
}

TYPED_TEST(Float16Test, ConstantsAreTheLimitsOfTheFormat) {
  EXPECT_EQ(TypeParam::max().bits + 1, TypeParam::infinity().bits);
  EXPECT_EQ(TypeParam::infinity().bits, kInfinityPattern<TypeParam>);
  EXPECT_EQ(static_cast<double>(TypeParam::lowest()), -static_cast<double>(TypeParam::max()));
  EXPECT_EQ(TypeParam::min_normal().bits, 1 << Format<TypeParam>::kMantissaBits);
  EXPECT_EQ(TypeParam::min_subnormal().bits, 1);
  EXPECT_EQ(static_cast<double>(TypeParam::epsilon()), std::ldexp(1.0, -Format<TypeParam>::kMantissaBits));
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam::quiet_nan())));
}

TYPED_TEST(Float16Test, EqualityComparesBits) {
  EXPECT_EQ(TypeParam::quiet_nan(), TypeParam::quiet_nan());
  EXPECT_NE(TypeParam(0.0F), TypeParam(-0.0F));
  EXPECT_NE(TypeParam(1.0F), TypeParam(2.0F));
}

// The named values of spec/amp-semantics V-1.
TEST(HalfTest, RangeIsThatOfBinary16) {
  EXPECT_EQ(static_cast<double>(Half::max()), 65504.0);
  EXPECT_EQ(static_cast<float>(Half(65519.99F)), 65504.0F);
  EXPECT_EQ(Half(65520.0F), Half::infinity());
  EXPECT_EQ(Half(-65520.0), Half::from_bits(0xfc00));
  EXPECT_EQ(static_cast<double>(Half::min_normal()), 6.103515625e-05);
  EXPECT_EQ(static_cast<double>(Half::min_subnormal()), 5.960464477539063e-08);
  EXPECT_EQ(Half(0x1p-25F).bits, 0);  // ties to even
  EXPECT_EQ(Half(-0x1p-25F).bits, 0x8000);
  EXPECT_EQ(Half(0x1.000002p-25F).bits, 1);
}

// The named values of spec/amp-semantics V-2.
TEST(BFloat16Test, RangeIsThatOfFloatWithEightBitsOfPrecision) {
  EXPECT_EQ(static_cast<float>(BFloat16(1.0F + 0x1p-8F)), 1.0F);
  EXPECT_EQ(static_cast<float>(BFloat16(1.0F + 3 * 0x1p-8F)), 1.015625F);
  EXPECT_EQ(static_cast<double>(BFloat16::max()), 3.3895313892515355e38);
  EXPECT_EQ(static_cast<float>(BFloat16::min_normal()), std::numeric_limits<float>::min());
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()), BFloat16::infinity());
}

}  // namespace
}  // namespace mezzo
