// Elementary functions, rounding and ops of three operands: what neither goldens nor the sweep see. Special
// values, ties, integers, and errors.
#include "mezzo/ops/elementary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/ops/cast.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

TEST(Elementary, EdgesOfTheDomains) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_EQ(list(erfinv(to(make<float>({-1, 0, 1}), dtype))), (Doubles{-INFINITY, 0, INFINITY}));
    for (const auto op : {asin, acos, erfinv})
      EXPECT_TRUE(std::isnan(op(to(make<float>({1.5F}), dtype)).item()));
    EXPECT_EQ(list(log2(to(make<float>({0, 1, 8, INFINITY}), dtype))), (Doubles{-INFINITY, 0, 3, INFINITY}));
    EXPECT_EQ(list(log10(to(make<float>({0.0F, 1000.0F}), dtype))), (Doubles{-INFINITY, 3}));
    EXPECT_TRUE(std::isnan(log1p(to(make<float>({-2}), dtype)).item()));
  }
}

TEST(Elementary, IntegersGiveF32) {
  const Tensor x = make<std::int64_t>({0, 1});
  EXPECT_EQ(cosh(x).dtype(), DType::f32);
  EXPECT_EQ(list(expm1(x))[0], 0);
  EXPECT_EQ(atan2(x, x).dtype(), DType::f32);
  EXPECT_EQ(list(atan2(bools({1}, {1}), bools({1}, {0})))[0],
            static_cast<double>(static_cast<float>(M_PI_2)));
}

TEST(Rounding, TiesGoToEven) {
  EXPECT_EQ(list(round(make<double>({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}))), (Doubles{-2, -2, 0, 0, 2, 2}));
  EXPECT_EQ(list(round(make<double>({0.25, 1.234}), 1)), (Doubles{0.2, 1.2}));
  EXPECT_EQ(list(round(make<double>({15, 25, -149}), -1)), (Doubles{20, 20, -150}));
}

TEST(Rounding, KeepsInfinitiesNanAndIntegers) {
  for (const auto op : {ceil, floor, trunc}) {
    const Doubles got = list(op(make<float>({INFINITY, -INFINITY, NAN})));
    EXPECT_EQ(got[0], INFINITY);
    EXPECT_EQ(got[1], -INFINITY);
    EXPECT_TRUE(std::isnan(got[2]));
    const std::int64_t large = (std::int64_t{1} << 62) + 1;
    EXPECT_EQ(op(make<std::int64_t>({large})).to_vector<std::int64_t>()[0], large);
    EXPECT_THROW(static_cast<void>(op(bools({1}, {1}))), DTypeError);
  }
  EXPECT_THROW(static_cast<void>(round(bools({1}, {1}))), DTypeError);
  EXPECT_THROW(static_cast<void>(round(make<std::int32_t>({15}), -1)), DTypeError);
}

TEST(Rounding, RemainderHasTheSignOfTheDivisor) {
  const Tensor a = make<std::int64_t>({7, -7, 7, -7, 5}), b = make<std::int64_t>({3, 3, -3, -3, 0});
  EXPECT_EQ(list(remainder(a, b)), (Doubles{1, 2, -2, -1, 5}));
  EXPECT_EQ(list(remainder(to(a, DType::f64), to(b, DType::f64)))[1], 2);
  EXPECT_TRUE(std::isnan(list(remainder(to(a, DType::f64), to(b, DType::f64)))[4]));
  EXPECT_EQ(list(remainder(make<double>({-1, 1, 5}), INFINITY)), (Doubles{INFINITY, 1, 5}));
  EXPECT_EQ(list(remainder(make<double>({5.5, -5.5}), -2)), (Doubles{-0.5, -1.5}));
  EXPECT_EQ(list(remainder(make<std::int64_t>({std::numeric_limits<std::int64_t>::min()}), -1)),
            (Doubles{0}));
  EXPECT_THROW(static_cast<void>(remainder(bools({1}, {1}), bools({1}, {1}))), DTypeError);
}

TEST(NanTest, IntegersAreFinite) {
  const Tensor x = make<std::int32_t>({0, 5});
  EXPECT_EQ(list(isfinite(x)), (Doubles{1, 1}));
  EXPECT_EQ(list(isnan(x)), (Doubles{0, 0}));
  EXPECT_EQ(list(isinf(x)), (Doubles{0, 0}));
  EXPECT_EQ(nan_to_num(x).dtype(), DType::i32);
}

TEST(NanTest, NanToNumTakesTheLargestNumberOfTheDtype) {
  const Tensor x = make<float>({NAN, INFINITY, -INFINITY});
  EXPECT_EQ(list(nan_to_num(to(x, DType::f16))), (Doubles{0, 65504, -65504}));
  EXPECT_EQ(list(nan_to_num(to(x, DType::bf16))), (Doubles{0, 0x1.fep127, -0x1.fep127}));
  const double f32 = static_cast<double>(std::numeric_limits<float>::max());
  EXPECT_EQ(list(nan_to_num(x, 7)), (Doubles{7, f32, -f32}));
  const Tensor leaf = make<float>({NAN, INFINITY, 1}).requires_grad_();
  const Tensor upstream = make<float>({INFINITY, 1, 1});
  EXPECT_EQ(list(grad(Tensors{nan_to_num(leaf)}, Tensors{leaf}, Tensors{upstream})[0]), (Doubles{0, 0, 1}));
}

TEST(Ternary, IntegersAndTheirErrors) {
  const Tensor i = make<std::int64_t>({6, 7}), two = make<std::int64_t>({2, 2});
  EXPECT_EQ(list(addcmul(i, two, two, 3)), (Doubles{18, 19}));
  EXPECT_THROW(static_cast<void>(addcmul(i, two, two, 0.5)), DTypeError);
  EXPECT_THROW(static_cast<void>(addcdiv(make<float>({1, 2}), i, two)), DTypeError);
  EXPECT_EQ(list(addcdiv(i, make<float>({1, 2}), two)), (Doubles{6.5, 8}));
  EXPECT_THROW(static_cast<void>(lerp(i, two, 0.5)), DTypeError);
  EXPECT_THROW(static_cast<void>(addcmul(bools({1}, {1}), bools({1}, {1}), bools({1}, {1}))), DTypeError);
}

TEST(Ternary, LerpMeetsBothEnds) {
  const Tensor a = make<float>({0.1F, -3e7F}), b = make<float>({0.7F, 1.3F});
  EXPECT_EQ(list(lerp(a, b, 0.0)), list(a));
  EXPECT_EQ(list(lerp(a, b, 1.0)), list(b));
}

TEST(Ternary, MaskedFill) {
  const Tensor mask = bools({2}, {1, 0}), x = leaf({1, 2});
  EXPECT_EQ(list(masked_fill(make<std::int64_t>({1, 2}), mask, 9)), (Doubles{9, 2}));
  EXPECT_THROW(static_cast<void>(masked_fill(make<std::int64_t>({1, 2}), mask, 0.5)), DTypeError);
  EXPECT_THROW(static_cast<void>(masked_fill(x, x, 0)), DTypeError);
  EXPECT_THROW(static_cast<void>(masked_fill(x, mask, x)), ShapeError);
  const Tensor value = leaf(Shape{}, {5});
  const Tensors got =
      grad(Tensors{masked_fill(x, mask, value)}, Tensors{x, value}, Tensors{make<double>({3, 4})});
  EXPECT_EQ(list(got[0]), (Doubles{0, 4}));
  EXPECT_EQ(list(got[1]), (Doubles{3}));
}

}  // namespace
}  // namespace mezzo
