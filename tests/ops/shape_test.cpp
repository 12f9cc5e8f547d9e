// Views and slices: which element stands where (by enumeration of indices), that memory is shared, the
// messages of refused calls, and gradients against finite differences.
#include "mezzo/ops/shape.h"

#include <gtest/gtest.h>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/ops/cast.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

bool shares_memory(const Tensor& a, const Tensor& b) { return a.impl().storage == b.impl().storage; }

// --- values and memory

TEST(Reshape, IsAViewOfAContiguousTensorAndFindsTheFreeSize) {
  const Tensor x = counted({2, 3, 4});
  const Tensor y = reshape(x, {4, -1});
  EXPECT_EQ(y.shape(), (Shape{4, 6}));
  EXPECT_EQ(list(y), list(x));
  EXPECT_TRUE(shares_memory(x, y));
  EXPECT_TRUE(y.impl().is_view);
  EXPECT_EQ(reshape(counted({}), {1, 1}).shape(), (Shape{1, 1}));
  EXPECT_EQ(reshape(counted({1}), {}).shape(), Shape{});
  EXPECT_EQ(reshape(counted({0, 3}), {3, 0}).shape(), (Shape{3, 0}));
  EXPECT_EQ(reshape(counted({0, 3}), {-1, 3}).shape(), (Shape{0, 3}));
}

TEST(Reshape, CopiesOnlyWhereStridesCannotShowIt) {
  const Tensor x = transpose(counted({3, 4}), 0, 1);
  const Tensor flat = reshape(x, {-1});
  EXPECT_EQ(list(flat), (Doubles{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_FALSE(shares_memory(x, flat));
  EXPECT_FALSE(flat.impl().is_view);
  const Tensor split_dims = reshape(x, {2, 2, 3});
  EXPECT_TRUE(shares_memory(x, split_dims));
  EXPECT_EQ(list(split_dims), list(x));
}

TEST(Reshape, RefusesOtherElementCounts) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)reshape(counted({2, 3}), {4, 2});
            }),
            "reshape: expected a shape of 6 elements, got [4, 2]; check the product of the sizes");
  EXPECT_THROW((void)reshape(counted({2, 3}), {4, -1}), ShapeError);
  EXPECT_THROW((void)reshape(counted({2, 3}), {-1, -1}), ShapeError);
  EXPECT_THROW((void)reshape(counted({2, 3}), {-2, -3}), ShapeError);
  EXPECT_THROW((void)reshape(counted({0}), {0, -1}), ShapeError);
}

TEST(View, NeverCopies) {
  const Tensor x = counted({3, 4});
  EXPECT_TRUE(shares_memory(x, view(x, {2, -1})));
  EXPECT_EQ(message_of<ShapeError>([&] { (void)view(t(x), {12}); }),
            "view: expected a shape that strides can show, got [12] of a tensor of shape [4, 3] with strides "
            "[1, 4]; use reshape, which copies where it must");
}

TEST(Permute, MovesEveryElementToItsIndex) {
  const Tensor x = counted({2, 3, 4});
  const Tensor y = permute(x, {2, -3, 1});
  EXPECT_EQ(y.shape(), (Shape{4, 2, 3}));
  EXPECT_TRUE(shares_memory(x, y));
  const Doubles values = list(y);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 3; ++k) EXPECT_EQ(values[i * 6 + j * 3 + k], j * 12 + k * 4 + i);
    }
  }
  EXPECT_EQ(permute(counted({}), {}).shape(), Shape{});
  EXPECT_EQ(message_of<ShapeError>([&] {
              (void)permute(x, {0, 1, 1});
            }),
            "permute: expected each of the 3 dims once, got [0, 1, 1]; name every dim of the tensor");
  EXPECT_THROW((void)permute(x, {0, 1}), ShapeError);
  EXPECT_THROW((void)permute(x, {0, 1, 3}), IndexError);
}

TEST(Transpose, ExchangesTwoDims) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(list(transpose(x, 0, -1)), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(list(t(x)), list(transpose(x, 0, 1)));
  EXPECT_EQ(list(transpose(x, 1, 1)), list(x));
  EXPECT_EQ(transpose(counted({}), 0, -1).shape(), Shape{});
  EXPECT_EQ(t(counted({3})).shape(), Shape{3});
  EXPECT_THROW((void)t(counted({1, 2, 3})), ShapeError);
  EXPECT_EQ(message_of<IndexError>([&] { (void)transpose(x, 0, 2); }),
            "transpose: expected a dim in [-2, 1], got 2; the tensor has 2 dims");
}

TEST(Expand, RepeatsWithoutMemoryOfItsOwn) {
  const Tensor x = counted({2, 1});
  const Tensor y = expand(x, {3, -1, 2});
  EXPECT_EQ(y.shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(list(y), (Doubles{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_TRUE(shares_memory(x, y));
  EXPECT_EQ(y.strides()[0], 0);
  EXPECT_EQ(expand(counted({}), {2, 2}).numel(), 4);
  EXPECT_EQ(expand(counted({1, 3}), {0, 3}).numel(), 0);
  EXPECT_THROW((void)expand(counted({2, 3}), {4, 3}), ShapeError);
  EXPECT_THROW((void)expand(counted({2, 3}), {3}), ShapeError);
  EXPECT_EQ(message_of<ShapeError>([&] {
              (void)expand(x, {-1, 2, 1});
            }),
            "expand: expected sizes of at least 0, or -1 for a dim that is there, got [-1, 2, 1]; the tensor "
            "has shape [2, 1]");
}

TEST(Squeeze, RemovesOnlyDimsOfSizeOne) {
  const Tensor x = counted({1, 3, 1});
  EXPECT_EQ(squeeze(x).shape(), Shape{3});
  EXPECT_EQ(squeeze(x, -1).shape(), (Shape{1, 3}));
  EXPECT_EQ(squeeze(x, {0, -1}).shape(), Shape{3});
  EXPECT_EQ(squeeze(x, {}).shape(), Shape{3});
  EXPECT_EQ(squeeze(x, 1).shape(), x.shape());
  EXPECT_EQ(squeeze(counted({}), 0).shape(), Shape{});
  EXPECT_TRUE(shares_memory(x, squeeze(x)));
  EXPECT_THROW((void)squeeze(x, 3), IndexError);
  EXPECT_THROW((void)squeeze(x, {0, -3}), IndexError);
}

TEST(Unsqueeze, AddsADimAnywhereUpToEight) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(unsqueeze(x, 0).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(unsqueeze(x, -1).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(unsqueeze(x, -3).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(unsqueeze(counted({}), 0).shape(), Shape{1});
  EXPECT_TRUE(unsqueeze(x, 1).is_contiguous());
  EXPECT_THROW((void)unsqueeze(x, 3), IndexError);
  EXPECT_THROW((void)unsqueeze(counted({1, 1, 1, 1, 1, 1, 1, 1}), 0), ShapeError);
}

TEST(Flatten, MergesARangeOfDims) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(flatten(x).shape(), Shape{24});
  EXPECT_EQ(flatten(x, 1).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(x, 0, -2).shape(), (Shape{6, 4}));
  EXPECT_EQ(flatten(x, 1, 1).shape(), x.shape());
  EXPECT_EQ(flatten(counted({})).shape(), Shape{1});
  EXPECT_TRUE(shares_memory(x, flatten(x)));
  EXPECT_EQ(list(flatten(transpose(counted({2, 2}), 0, 1))), (Doubles{0, 2, 1, 3}));
  EXPECT_THROW((void)flatten(x, 2, 1), ShapeError);
}

TEST(Views, KeepEveryDType) {
  for (const DType dtype : kComputeDTypes) {
    const Tensor x = counted({2, 3}, dtype);
    for (const Tensor& y : {transpose(x, 0, 1), slice(x, 0, 1), select(x, 1, 2), squeeze(x),
                            reshape(t(x), {6}), slice_backward(x, {4, 3}, 0, 0, 4, 2)}) {
      EXPECT_EQ(y.dtype(), dtype);
    }
    EXPECT_EQ(list(reshape(t(x), {6})), list(t(x)));
  }
}

TEST(Views, ShowWritesToTheirBaseAndCountAsViews) {
  const Tensor x = counted({2, 3});
  const Tensor row = select(x, 0, 1), columns = slice(x, 1, 0, 3, 2);
  EXPECT_EQ(x.impl().storage->live_views(), 2);
  row.fill_(7);
  EXPECT_EQ(list(x), (Doubles{0, 1, 2, 7, 7, 7}));
  EXPECT_EQ(list(columns), (Doubles{0, 2, 7, 7}));
  const Tensor history = clone(counted({2, 2}).requires_grad_());
  const Tensor part = select(history, 0, 0);
  EXPECT_THROW(part.mul_(2), AutogradError);
  EXPECT_THROW(history.mul_(2), AutogradError);
}

TEST(Views, OfViewsStartWhereTheyShould) {
  const Tensor x = counted({4, 5});
  EXPECT_EQ(list(select(slice(t(x), 0, 1, 4, 2), 0, 1)), (Doubles{3, 8, 13, 18}));
  EXPECT_EQ(list(narrow(select(x, 0, 2), 0, -2, 2)), (Doubles{13, 14}));
  EXPECT_EQ(list(reshape(slice(x, 0, 1, 3), {10})), (Doubles{5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
}

// --- slices

/// What Python's list(range(size))[start:end:step] is, spelled out without any clamping.
Doubles sliced(std::int64_t size, std::optional<std::int64_t> start, std::optional<std::int64_t> end,
               std::int64_t step) {
  const auto bound = [size](std::int64_t value) { return value < 0 ? value + size : value; };
  Doubles result;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t first = std::max<std::int64_t>(start ? bound(*start) : 0, 0);
    if (i >= first && (!end || i < bound(*end)) && (i - first) % step == 0)
      result.push_back(static_cast<double>(i));
  }
  return result;
}

TEST(Slice, IsPythonsSliceForEveryCombinationOfBounds) {
  constexpr std::int64_t kSize = 4;
  const Tensor x = counted({kSize});
  for (std::int64_t start = -6; start <= 6; ++start) {
    for (std::int64_t end = -6; end <= 6; ++end) {
      for (const std::int64_t step : {1, 2, 3, 100}) {
        EXPECT_EQ(list(slice(x, 0, start, end, step)), sliced(kSize, start, end, step))
            << start << ':' << end << ':' << step;
        EXPECT_EQ(list(slice(x, 0, {}, end, step)), sliced(kSize, {}, end, step));
        EXPECT_EQ(list(slice(x, 0, start, {}, step)), sliced(kSize, start, {}, step));
      }
    }
  }
  EXPECT_EQ(list(slice(x, 0, INT64_MIN, INT64_MAX, INT64_MAX)), Doubles{0});
}

TEST(Slice, RefusesBackwardStepsAndNumbers) {
  EXPECT_EQ(message_of<ValueError>([] { (void)slice(counted({3}), 0, 0, 3, 0); }),
            "slice: expected a step of at least 1, got 0; use a positive step");
  EXPECT_THROW((void)slice(counted({}), 0), IndexError);
  EXPECT_THROW((void)slice(counted({3}), 1), IndexError);
}

TEST(Select, TakesOneIndexAndItsDimAway) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(list(select(x, 1, 2)), (Doubles{8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(list(select(x, -1, -4)), (Doubles{0, 4, 8, 12, 16, 20}));
  EXPECT_EQ(select(counted({3}), 0, 1).shape(), Shape{});
  EXPECT_EQ(select(counted({3, 0}), 0, 2).shape(), Shape{0});
  EXPECT_EQ(message_of<IndexError>([&] { (void)select(x, 1, 3); }),
            "select: expected an index in [-3, 2], got 3; dim 1 has size 3");
  EXPECT_THROW((void)select(x, 1, -4), IndexError);
  EXPECT_THROW((void)select(counted({0}), 0, 0), IndexError);
  EXPECT_THROW((void)select(counted({}), 0, 0), IndexError);
}

TEST(Narrow, TakesARangeThatMustBeThere) {
  const Tensor x = counted({5, 2});
  EXPECT_EQ(list(narrow(x, 0, 1, 2)), (Doubles{2, 3, 4, 5}));
  EXPECT_EQ(list(narrow(x, 0, -1, 1)), (Doubles{8, 9}));
  EXPECT_EQ(narrow(x, 0, 5, 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(message_of<IndexError>([&] { (void)narrow(x, 0, 4, 2); }),
            "narrow: expected a range within dim 0 of size 5, got start 4 and length 2; use slice, which "
            "clamps");
  EXPECT_THROW((void)narrow(x, 0, 1, INT64_MAX), IndexError);
  EXPECT_THROW((void)narrow(x, 0, -6, 1), IndexError);
  EXPECT_THROW((void)narrow(x, 0, 0, -1), IndexError);
}

TEST(Split, GivesPiecesOfOneSizeOrOfGivenSizes) {
  const Tensor x = counted({7});
  const Tensors even = split(x, 3);
  ASSERT_EQ(even.size(), 3U);
  EXPECT_EQ(list(even[0]), (Doubles{0, 1, 2}));
  EXPECT_EQ(list(even[2]), Doubles{6});
  EXPECT_TRUE(shares_memory(x, even[1]));
  const Tensors given = split(x, {2, 0, 5});
  ASSERT_EQ(given.size(), 3U);
  EXPECT_EQ(given[1].shape(), Shape{0});
  EXPECT_EQ(list(given[2]), (Doubles{2, 3, 4, 5, 6}));
  EXPECT_EQ(split(counted({2, 6}), 4, -1)[1].shape(), (Shape{2, 2}));
  EXPECT_EQ(split(counted({0}), 3).size(), 1U);
  EXPECT_EQ(split(x, 100).size(), 1U);
}

TEST(Split, RefusesSizesThatDoNotAddUp) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)split(counted({7}), {3, 3});
            }),
            "split: expected sizes of at least 0 that add up to 7, got [3, 3]; check the sizes and the dim");
  EXPECT_THROW((void)split(counted({7}), {3}), ShapeError);  // a list, unlike split(x, 3)
  EXPECT_THROW((void)split(counted({7}), {8, -1}), ShapeError);
  EXPECT_THROW((void)split(counted({7}), 0), ValueError);
  EXPECT_THROW((void)split(counted({7}), -1), ValueError);
  EXPECT_THROW((void)split(counted({}), 1), IndexError);
}

TEST(SliceBackward, PutsTheGradientWhereTheSliceWas) {
  const Tensor grad = make<double>({2}, {5, 6});
  EXPECT_EQ(list(slice_backward(grad, {5}, 0, 1, 4, 2)), (Doubles{0, 5, 0, 6, 0}));
  EXPECT_EQ(message_of<ShapeError>([&] { (void)slice_backward(grad, {5}, 0, 0, 5); }),
            "slice_backward: expected a gradient of shape [5], got [2]; give it the shape of the slice");
}

// --- by name

TEST(Shape, RegistryTakesTheArgumentNamesOfTheGoldens) {
  const Tensor x = counted({2, 3});
  const auto shape_of = [&](std::string_view op, const Value::Map& attrs) {
    return Tensor(call_op(op, {x}, attrs)).shape();
  };
  EXPECT_EQ(shape_of("transpose", {{"d0", 0}, {"d1", 1}}), (Shape{3, 2}));
  EXPECT_EQ(shape_of("squeeze", {{"dim", nullptr}}), x.shape());
  EXPECT_EQ(shape_of("squeeze", {{"dim", 0}}), x.shape());
  EXPECT_EQ(shape_of("slice", {{"dim", 1}, {"start", nullptr}, {"end", -1}}), (Shape{2, 2}));
  EXPECT_EQ(call_op("split", {x}, Value::Map{{"sizes", 2}, {"dim", 1}}).size(), 2U);
}

// --- gradients

/// The square keeps second derivatives from being zero, so they pass through every op twice.
void expect_differentiable(const std::string& name, const std::function<Tensor(const Tensor&)>& op,
                           const Shape& shape) {
  const Tensor x = leaf(shape, spread(static_cast<std::size_t>(layout::numel(shape)), -2, 2));
  expect_derivatives(name,
                     [&](const Tensors& in) {
                       const Tensor y = op(in[0]);
                       return mul(y, y);
                     },
                     {x});
}

TEST(Shape, GradientsAreTheInverseArrangement) {
  using T = const Tensor&;
  expect_differentiable("reshape", [](T x) { return reshape(x, {3, 2}); }, {2, 3});
  expect_differentiable("reshape with a copy", [](T x) { return reshape(t(x), {-1}); }, {2, 3});
  expect_differentiable("permute", [](T x) { return permute(x, {2, 0, -2}); }, {2, 3, 2});
  expect_differentiable("transpose", [](T x) { return transpose(x, 0, -1); }, {2, 3});
  expect_differentiable("expand", [](T x) { return expand(x, {2, -1, 3}); }, {2, 1});
  expect_differentiable("squeeze", [](T x) { return squeeze(x, 0); }, {1, 3});
  expect_differentiable("unsqueeze", [](T x) { return unsqueeze(x, -1); }, {3});
  expect_differentiable("flatten", [](T x) { return flatten(x, 1); }, {2, 2, 2});
  expect_differentiable("identity", [](T x) { return identity(x); }, {3});
  expect_differentiable("slice", [](T x) { return slice(x, -1, -4, 100, 2); }, {2, 5});
  expect_differentiable("select", [](T x) { return select(x, -1, -1); }, {2, 3});
  expect_differentiable("narrow", [](T x) { return narrow(x, 0, -2, 2); }, {3, 2});
  expect_differentiable("split", [](T x) { return mul(split(x, 2)[1], split(x, {2, 2, 1})[0]); }, {5});
  expect_differentiable("split, last piece", [](T x) { return split(x, 2, 1)[2]; }, {2, 5});
  expect_differentiable("slice_backward", [](T x) { return slice_backward(x, {5, 2}, 0, 0, 5, 2); }, {3, 2});
}

TEST(Identity, KeepsTheGradientsOfTwoUsesApart) {
  const Tensor x = leaf({1, 2});
  const Tensor a = identity(x), b = identity(x);
  const Tensor y = add(mul(a, a), mul(b, 5));
  const Tensor ones = make<double>({1, 1});
  const Tensors grads = grad({&y, 1}, Tensors{a, b, x}, {&ones, 1});
  EXPECT_EQ(list(grads[0]), (Doubles{2, 4}));
  EXPECT_EQ(list(grads[1]), (Doubles{5, 5}));
  EXPECT_EQ(list(grads[2]), (Doubles{7, 9}));
}

}  // namespace
}  // namespace mezzo
