// Joins: where each element ends up, dtypes, the skipped empty tensors, refusals, and gradients.
#include <gtest/gtest.h>

#include <numeric>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/random.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

Tensor counted(const Shape& shape, double first = 0, DType dtype = DType::f64) {
  std::vector<double> values(static_cast<std::size_t>(layout::numel(shape)));
  std::iota(values.begin(), values.end(), first);
  return make<double>(shape, values).to(dtype);
}

// --- cat

TEST(Cat, PutsTensorsOneAfterTheOther) {
  const Tensor a = counted({2, 1}), b = counted({2, 2}, 10);
  EXPECT_EQ(list(cat({a, b}, 1)), (Doubles{0, 10, 11, 1, 12, 13}));
  EXPECT_EQ(list(cat({a, b}, -1)), list(cat({a, b}, 1)));
  EXPECT_EQ(list(cat({b, counted({1, 2}, 20)})), (Doubles{10, 11, 12, 13, 20, 21}));
  EXPECT_EQ(list(cat({a})), list(a));
  const std::vector<Tensor> many(20, counted({1}));
  EXPECT_EQ(list(cat(many)), Doubles(20, 0));
}

TEST(Cat, TakesAnyStrides) {
  const Tensor a = counted({2, 3});
  EXPECT_EQ(list(cat({t(a), expand(counted({1, 1}, 9), {1, 2})})), (Doubles{0, 3, 1, 4, 2, 5, 9, 9}));
  EXPECT_EQ(list(cat({strided_copy(a), a}, 1)), (Doubles{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
}

TEST(Cat, HasMemoryOfItsOwn) {
  const Tensor a = counted({2});
  const Tensor y = cat({a});
  y.fill_(5);
  EXPECT_EQ(list(a), (Doubles{0, 1}));
  EXPECT_FALSE(y.impl().is_view);
}

TEST(Cat, SkipsOneDimEmptyTensorsAndKeepsOtherEmptyOnes) {
  const Tensor nothing = zeros({0}, {.dtype = DType::f64});
  EXPECT_EQ(list(cat({nothing, counted({3})})), (Doubles{0, 1, 2}));
  EXPECT_EQ(cat({nothing, counted({2, 3}), nothing}, 1).shape(), (Shape{2, 3}));
  EXPECT_EQ(cat({nothing, nothing}).shape(), Shape{0});
  EXPECT_EQ(cat({counted({2, 0}), counted({2, 3})}, 1).shape(), (Shape{2, 3}));
  EXPECT_THROW((void)cat({counted({3, 0}), counted({2, 3})}, 1), ShapeError);
}

TEST(Cat, PromotesDTypes) {
  const Tensor half = counted({1}, 1, DType::f16), brain = counted({1}, 2, DType::bf16);
  const Tensor integer = counted({1}, 3, DType::i64), flag = counted({1}, 1, DType::boolean);
  EXPECT_EQ(cat({half, brain}).dtype(), DType::f32);
  EXPECT_EQ(cat({half, integer}).dtype(), DType::f16);
  EXPECT_EQ(cat({integer, flag}).dtype(), DType::i64);
  EXPECT_EQ(list(cat({half, brain, integer, flag})), (Doubles{1, 2, 3, 1}));
  EXPECT_EQ(cat({zeros({0}), counted({1}, 0, DType::f16)}).dtype(), DType::f32);
  // 2^53 + 1 has no f64 of its own: an integer must not pass through one.
  const Tensor large = make<std::int64_t>({9007199254740993});
  EXPECT_EQ(cat({large, make<std::int32_t>({1})}).to_vector<std::int64_t>()[0], 9007199254740993);
}

TEST(Cat, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)cat({counted({2, 3}), counted({3, 2})});
            }),
            "cat: expected sizes that agree but for dim 0, got [2, 3] and [3, 2]; check the shapes and the "
            "dim");
  EXPECT_THROW((void)cat({counted({2}), counted({2, 1})}), ShapeError);
  EXPECT_EQ(message_of<ShapeError>([] { (void)cat(Tensors{}); }),
            "cat: expected at least one tensor, got an empty list; pass tensors");
  EXPECT_EQ(message_of<ShapeError>([] { (void)cat({counted({})}); }),
            "cat: expected tensors with at least 1 dim, got a 0-dim tensor; use stack");
  EXPECT_THROW((void)cat({counted({2}), counted({2})}, 1), IndexError);
  EXPECT_THROW((void)cat({zeros({0})}, 1), IndexError);
  EXPECT_THROW((void)cat({counted({2}), Tensor()}), ValueError);
  EXPECT_THROW((void)cat({Tensor(), counted({2})}), ValueError);
}

// --- stack

TEST(Stack, AddsADim) {
  const Tensor a = counted({2, 2}), b = counted({2, 2}, 10);
  EXPECT_EQ(list(stack({a, b})), (Doubles{0, 1, 2, 3, 10, 11, 12, 13}));
  EXPECT_EQ(list(stack({a, b}, 1)), (Doubles{0, 1, 10, 11, 2, 3, 12, 13}));
  EXPECT_EQ(list(stack({a, t(b)}, -1)), (Doubles{0, 10, 1, 12, 2, 11, 3, 13}));
  EXPECT_EQ(list(stack({counted({}, 4), counted({}, 5)})), (Doubles{4, 5}));
  EXPECT_EQ(stack({counted({0, 2}), counted({0, 2})}, 1).shape(), (Shape{0, 2, 2}));
  EXPECT_EQ(stack({counted({1}, 0, DType::f16), counted({1})}).dtype(), DType::f64);
}

TEST(Stack, RefusesUnequalShapes) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)stack({counted({2}), counted({3})});
            }),
            "stack: expected tensors of one shape, got [2] and [3]; use cat, or check the shapes");
  EXPECT_THROW((void)stack(Tensors{}), ShapeError);
  EXPECT_THROW((void)stack({counted({2})}, 2), IndexError);
}

TEST(Joins, UnderAutocastTakeTheWidestDType) {
  const Tensor half = counted({1}, 0, DType::f16), single = counted({1}, 0, DType::f32);
  const amp::Autocast autocast(Device::cpu(), DType::f16);
  EXPECT_EQ(cat({half, single}).dtype(), DType::f32);
  EXPECT_EQ(stack({half, single}).dtype(), DType::f32);
  EXPECT_EQ(cat({half, half}).dtype(), DType::f16);
}

// --- repeat

/// result[i...] = x[i mod size...], by enumeration.
Doubles tiled(const Tensor& x, const Shape& padded, const Dims& reps) {
  const Doubles values = list(x);
  Shape shape = padded;
  for (std::size_t d = 0; d < reps.size(); ++d) shape[d] *= reps[d];
  Doubles result;
  for (std::int64_t i = 0; i < layout::numel(shape); ++i) {
    std::int64_t rest = i, at = 0, stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      at += rest % shape[d] % padded[d] * stride;
      rest /= shape[d];
      stride *= padded[d];
    }
    result.push_back(values[static_cast<std::size_t>(at)]);
  }
  return result;
}

TEST(Repeat, TilesAlongEveryDim) {
  const Tensor x = counted({2, 3});
  for (const Dims& reps : {Dims{2, 1}, Dims{1, 1}, Dims{3, 2}, Dims{0, 2}})
    EXPECT_EQ(list(repeat(x, reps)), tiled(x, {2, 3}, reps)) << to_string(reps);
  EXPECT_EQ(list(repeat(x, {2, 1, 2})), tiled(x, {1, 2, 3}, {2, 1, 2}));
  EXPECT_EQ(list(repeat(t(x), {1, 2})), tiled(t(x), {3, 2}, {1, 2}));
  EXPECT_EQ(list(repeat(counted({}, 7), {3})), Doubles(3, 7));
  EXPECT_EQ(repeat(counted({}), {}).shape(), Shape{});
  // More repeated dims than one reshape of eight dims can show.
  const Tensor deep = counted({2, 1, 3, 2, 1, 2, 1, 2});
  const Dims reps{2, 3, 1, 2, 2, 2, 1, 2};
  EXPECT_EQ(repeat(deep, reps).shape(), (Shape{4, 3, 3, 4, 2, 4, 1, 4}));
  EXPECT_EQ(list(repeat(deep, reps)), tiled(deep, deep.shape(), reps));
}

TEST(Repeat, RoundsGradientsOf16BitsOnce) {
  const Dims reps{2, 3, 3, 2, 2, 1};
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Generator generator(1);
    const Tensor g = uniform(-1, 1, {2, 3, 18, 8, 2, 1}, {.dtype = DType::f32}, generator).to(dtype);
    const auto gradient = [&](DType of) {
      const Tensor x = zeros({6, 4, 1, 1}, {.dtype = of, .requires_grad = true});
      repeat(x, reps).backward(g.to(of), {});
      return x.grad();
    };
    EXPECT_EQ(list(gradient(dtype)), list(gradient(DType::f32).to(dtype)));
  }
}

TEST(Repeat, CopiesEvenWhereNothingIsRepeated) {
  const Tensor x = counted({2});
  for (const Tensor& y : {repeat(x, {1}), repeat(x, {2})}) {
    y.fill_(5);
    EXPECT_FALSE(y.impl().is_view);
  }
  EXPECT_EQ(list(x), (Doubles{0, 1}));
}

TEST(Repeat, RefusesFewerNumbersThanDimsAndNegativeOnes) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)repeat(counted({2, 3}), {2});
            }),
            "repeat: expected a number for each of the 2 dims, got [2]; use 1 for dims that stay");
  EXPECT_THROW((void)repeat(counted({2}), {-1}), ValueError);
}

// --- gradients

TEST(Joins, GradientsGoBackToTheirPieces) {
  const Tensor a = leaf({2, 1}, spread(2, -2, 2)), b = leaf({2, 2}, spread(4, -2, 2, 1));
  const auto squared = [](const Tensor& y) { return mul(y, y); };
  expect_derivatives("cat", [&](const Tensors& in) { return squared(cat(in, -1)); }, {a, b});
  expect_derivatives("cat of one tensor twice",
                     [&](const Tensors& in) {
                       return squared(cat({in[0], in[1], in[0]}, 1));
                     },
                     {a, b});
  expect_derivatives("stack", [&](const Tensors& in) { return squared(stack({in[0], t(in[0])}, 1)); }, {b});
  for (const Dims& reps : {Dims{2, 3}, Dims{2, 1, 2}, Dims{1, 1}, Dims{2, 2, 2, 1, 2, 1, 3, 2}}) {
    expect_derivatives("repeat " + to_string(reps),
                       [&](const Tensors& in) { return squared(repeat(in[0], reps)); }, {b});
  }
}

TEST(Cat, GradientOfSkippedAndOfConvertedTensors) {
  const Tensor nothing = zeros({0}).requires_grad_();
  const Tensor half = make<double>({2}, {1, 2}).to(DType::f16).requires_grad_();
  const Tensor whole = make<double>({1}, {3}).requires_grad_();
  cat({nothing, half, whole}).backward(make<double>({4, 5, 6}), {});
  EXPECT_EQ(nothing.grad().shape(), Shape{0});
  EXPECT_EQ(half.grad().dtype(), DType::f16);
  EXPECT_EQ(list(half.grad()), (Doubles{4, 5}));
  EXPECT_EQ(list(whole.grad()), Doubles{6});
}

TEST(Repeat, GradientOfNoCopiesIsZero) {
  const Tensor x = leaf({2, 1}, {1, 2});
  repeat(x, {3, 0}).backward(zeros({6, 0}, {.dtype = DType::f64}), {});
  EXPECT_EQ(list(x.grad()), (Doubles{0, 0}));
}

}  // namespace
}  // namespace mezzo
