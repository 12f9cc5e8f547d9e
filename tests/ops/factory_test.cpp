// Tensors made of numbers: values, dtypes by default and by request, rounding, and refused arguments.
#include "mezzo/ops/factory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

TEST(Full, ConvertsTheValueToEveryDType) {
  for (const DType dtype : kComputeDTypes) {
    const Tensor x = full({2, 3}, 1, {.dtype = dtype});
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_EQ(list(x), Doubles(6, 1)) << to_string(dtype);
  }
  EXPECT_EQ(full({1}, 3).dtype(), DType::f32);
  EXPECT_EQ(full({}, 0.1).item(), static_cast<double>(0.1F));
  EXPECT_EQ(full({}, 0.1, {.dtype = DType::f64}).item(), 0.1);
  EXPECT_EQ(full({}, 0.1, {.dtype = DType::bf16}).item(), 0.10009765625);  // the nearest with 8 bits
  EXPECT_EQ(full({}, -2.7, {.dtype = DType::i32}).item(), -2);
  EXPECT_EQ(full({}, 0.5, {.dtype = DType::boolean}).item(), 1);
  EXPECT_EQ(full({}, 9007199254740993, {.dtype = DType::i64}).item<std::int64_t>(), 9007199254740993);
  EXPECT_EQ(full({0, 2}, 1).numel(), 0);
}

TEST(Full, FollowsTheConversionRulesWhereCxxLeavesThemOpen) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(full({}, std::nan("")).item()));
  EXPECT_EQ(full({}, infinity, {.dtype = DType::f16}).item(), infinity);
  EXPECT_EQ(full({}, std::nan(""), {.dtype = DType::i64}).item<std::int64_t>(), 0);
  EXPECT_EQ(full({}, infinity, {.dtype = DType::i64}).item<std::int64_t>(), INT64_MAX);
}

TEST(Full, FillsMoreThanOneTileAndTheTail) {
  for (const std::int64_t n : {1, 3, 4, 5, 1023, 1025, 33 * 1024 + 2, 70001})
    EXPECT_EQ(list(full({n}, 2.5, {.dtype = DType::f16})), Doubles(static_cast<std::size_t>(n), 2.5)) << n;
}

TEST(Factories, PassOptionsOn) {
  EXPECT_TRUE(ones({2}, {.requires_grad = true}).requires_grad());
  EXPECT_TRUE(tensor({1.0}, {.requires_grad = true}).requires_grad());
  EXPECT_THROW((void)tensor({1}, {.requires_grad = true}), DTypeError);
  EXPECT_THROW((void)full({2}, 1, {.device = Device::cuda(99)}), DeviceError);
  EXPECT_THROW((void)ones({-1}), ShapeError);
}

TEST(Likes, TakeShapeAndDTypeOfTheirModelButNoHistory) {
  const Tensor x = full({2, 3}, 7, {.dtype = DType::f16, .requires_grad = true});
  EXPECT_EQ(list(ones_like(x)), Doubles(6, 1));
  EXPECT_EQ(list(zeros_like(x)), Doubles(6, 0));
  EXPECT_EQ(list(full_like(x, 3)), Doubles(6, 3));
  EXPECT_EQ(empty_like(x).shape(), x.shape());
  EXPECT_EQ(ones_like(x).dtype(), DType::f16);
  EXPECT_EQ(zeros_like(x, DType::i64).dtype(), DType::i64);
  EXPECT_FALSE(ones_like(x).requires_grad());
}

TEST(Arange, CountsUpAndDown) {
  EXPECT_EQ(list(arange(4)), (Doubles{0, 1, 2, 3}));
  EXPECT_EQ(list(arange(2, 9, 3)), (Doubles{2, 5, 8}));
  EXPECT_EQ(list(arange(2, 8, 3)), (Doubles{2, 5}));
  EXPECT_EQ(list(arange(1, -6, -3)), (Doubles{1, -2, -5}));
  EXPECT_EQ(list(arange(0.5, 2, 0.5)), (Doubles{0.5, 1, 1.5}));
  EXPECT_EQ(arange(3, 3).numel(), 0);
  EXPECT_EQ(arange(0).shape(), Shape{0});
  EXPECT_EQ(arange(INT64_MIN, INT64_MAX, INT64_MAX).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{INT64_MIN, -1, INT64_MAX - 1}));
}

TEST(Arange, IsIntegerForIntegersAndRoundsOnceOtherwise) {
  EXPECT_EQ(arange(3).dtype(), DType::i64);
  EXPECT_EQ(arange(3.0).dtype(), DType::f32);
  EXPECT_EQ(arange(0, 1, 0.25).dtype(), DType::f32);
  EXPECT_EQ(arange(3, {.dtype = DType::f16}).dtype(), DType::f16);
  const Tensor x = arange(1, 2, 0.001);
  ASSERT_EQ(x.numel(), 1000);
  const auto values = x.data<float>();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(values[i], static_cast<float>(1 + i * 0.001));
}

TEST(Arange, RefusesStepsThatDoNotLeadToTheEnd) {
  EXPECT_EQ(message_of<ValueError>([] { (void)arange(0, 3, -1); }),
            "arange: expected finite bounds and a step that leads from start to end, got start 0, end 3, "
            "step -1; check the sign of the step");
  EXPECT_THROW((void)arange(0, 3, 0), ValueError);
  EXPECT_THROW((void)arange(0.0, 3.0, 0.0), ValueError);
  EXPECT_THROW((void)arange(0.0, std::nan("")), ValueError);
  EXPECT_THROW((void)arange(-1), ValueError);
  EXPECT_THROW((void)arange(INT64_MAX), ShapeError);
  EXPECT_THROW((void)arange(1e30), ShapeError);
}

TEST(Eye, HasOnesOnTheDiagonalOnly) {
  EXPECT_EQ(list(eye(2)), (Doubles{1, 0, 0, 1}));
  EXPECT_EQ(list(eye(2, 3)), (Doubles{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(list(eye(3, 2, {.dtype = DType::i64})), (Doubles{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
  EXPECT_FALSE(eye(3).impl().is_view);
  EXPECT_EQ(eye(3).impl().storage->live_views(), 0);
  EXPECT_THROW((void)eye(-1), ShapeError);
}

TEST(TensorOfValues, HasTheDTypePyTorchWouldGive) {
  EXPECT_EQ(tensor({1.0, 2.0}).dtype(), DType::f32);
  EXPECT_EQ(tensor({1.0F}).dtype(), DType::f32);
  EXPECT_EQ(tensor({1, 2}).dtype(), DType::i64);
  EXPECT_EQ(tensor({std::uint8_t{1}}).dtype(), DType::i64);
  EXPECT_EQ(tensor({true, false}).dtype(), DType::boolean);
  EXPECT_EQ(tensor({Half(1.0F)}).dtype(), DType::f16);
  EXPECT_EQ(tensor(std::vector<double>{1, 2}).dtype(), DType::f32);
  EXPECT_EQ(tensor(std::vector<bool>{true, false, true}).dtype(), DType::boolean);
  EXPECT_EQ(tensor(3.5).shape(), Shape{});
  EXPECT_EQ(tensor(3.5).item(), 3.5);
  EXPECT_EQ(tensor(true).dtype(), DType::boolean);
}

TEST(TensorOfValues, TakesAShapeAndConvertsOnce) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3}, {.dtype = DType::f64});
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(list(x), (Doubles{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(list(tensor({0.1}, {.dtype = DType::f64})), Doubles{0.1});
  // Just above the middle between two f16 neighbours. By way of f32 it would be the middle and round down.
  EXPECT_EQ(tensor(1 + 0x1p-11 + 0x1p-30, {.dtype = DType::f16}).item(), 1 + 0x1p-10);
  EXPECT_EQ(tensor({1, 0, 2}, {.dtype = DType::boolean}).to_vector<float>(), (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(tensor(std::vector<int>{}).shape(), Shape{0});
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)tensor({1, 2}, {3});
            }),
            "tensor: expected a shape of 2 elements, got [3]; give one value per element");
}

TEST(FromData, CopiesMemoryAsItIs) {
  std::vector<float> values{1, 2, 3, 4};
  const Tensor x = from_data<float>(values, {2, 2});
  values[0] = 9;
  EXPECT_EQ(list(x), (Doubles{1, 2, 3, 4}));
  EXPECT_EQ(x.dtype(), DType::f32);
  const std::vector<BFloat16> brains{BFloat16(1.5F)};
  EXPECT_EQ(from_data<BFloat16>(brains, {}).dtype(), DType::bf16);
  EXPECT_EQ(from_data<std::int64_t>({}, {0}).numel(), 0);
  EXPECT_THROW((void)from_data<float>(values, {3}), ShapeError);
}

}  // namespace
}  // namespace mezzo
