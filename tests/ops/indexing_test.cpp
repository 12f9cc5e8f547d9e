// Indexing and sorting: what goldens and the sweep do not reach, which is refusals, repeated places, masks,
// whole dims, ties, NaN and empty tensors.
#include "mezzo/ops/indexing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/autograd/engine.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

Tensor at(std::initializer_list<std::int64_t> positions) { return tensor(positions); }
const Tensor kNoIndices = zeros({0}, {.dtype = DType::i64});

TEST(Gather, TakesAnyDTypeAndRefusesWhatDoesNotFit) {
  const Tensor x = counted({2, 3});
  for (const DType dtype : kComputeDTypes)
    EXPECT_EQ(list(gather(counted({2}, dtype), 0, at({1, 1}))), (Doubles{1, 1})) << to_string(dtype);
  EXPECT_THROW((void)gather(x, 1, at({0})), ShapeError);
  EXPECT_THROW((void)gather(x, 1, zeros({3, 1}, {.dtype = DType::i64})), ShapeError);
  EXPECT_THROW((void)gather(x, 1, zeros({2, 1}, {.dtype = DType::i32})), DTypeError);
  EXPECT_THROW((void)gather(counted({0}), 0, at({0})), IndexError);
  EXPECT_EQ(gather(counted({0}), 0, kNoIndices).shape(), Shape{0});
}

TEST(Scatter, LetsTheLastOneWin) {
  const Tensor x = counted({3}), src = make<double>({4}, {5, 6, 7, 8});
  EXPECT_EQ(list(scatter(x, 0, at({2, 0, 2}), src)), (Doubles{6, 1, 7}));
  EXPECT_EQ(list(scatter_add(x, 0, at({2, 0, 2}), src)), (Doubles{6, 1, 14}));
  EXPECT_EQ(list(x), (Doubles{0, 1, 2}));
  EXPECT_EQ(list(scatter(x, 0, at({1}), 9)), (Doubles{0, 9, 2}));
  EXPECT_THROW((void)scatter(x, 0, at({0, 0, 0, 0, 0}), src), ShapeError);
  EXPECT_THROW((void)scatter(x, 0, at({0}), src.to(DType::f32)), DTypeError);
  EXPECT_THROW((void)scatter_add(x, 0, at({3}), src), IndexError);
}

// As in PyTorch: an index without elements may be larger than x and src in other dims.
TEST(Scatter, TakesAnyIndexWithoutElements) {
  const Device device = Device::best();
  const Tensor x = counted({3, 4}).to(device).requires_grad_();
  const Tensor index = zeros({7, 0}, {.dtype = DType::i64, .device = device});
  const Tensor src = zeros({2, 3}, options_of(x)).requires_grad_();
  EXPECT_EQ(gather(x, 1, index).shape(), (Shape{7, 0}));
  EXPECT_EQ(list(grad(gather(x, 1, index).sum(), x)[0]), Doubles(12, 0));
  for (const Tensor& y : {scatter(x, 1, index, src), scatter_add(x, 1, index, src),
                          scatter_reduce(x, 1, index, src, ScatterReduction::mean, false)}) {
    EXPECT_EQ(list(y), list(x));
    const Tensors gradients = grad(y.sum(), {x, src}, {}, {.create_graph = true});
    EXPECT_EQ(list(gradients[0]), Doubles(12, 1));
    EXPECT_EQ(list(gradients[1]), Doubles(6, 0));
  }
  EXPECT_EQ(list(scatter(x, 1, index, 5)), list(x));
  EXPECT_THROW((void)gather(x, 1, kNoIndices.to(device)), ShapeError);
}

TEST(ScatterAdd, SumsSixteenBitValuesInOneRounding) {
  // One by one in bf16, 256 + 1 would stay 256.
  const Tensor x = full({1}, 256, {.dtype = DType::bf16}), ones_ = ones({8}, {.dtype = DType::bf16});
  EXPECT_EQ(list(scatter_add(x, 0, zeros({8}, {.dtype = DType::i64}), ones_)), Doubles{264});
}

// Values that PyTorch 2.15 gives for the same calls.
TEST(ScatterReduce, TakesXInOrLeavesItOut) {
  const auto reduced = [](const Tensor& x, const Tensor& src, ScatterReduction how, bool include_self) {
    return list(scatter_reduce(x, 0, at({0, 0, 1}), src, how, include_self));
  };
  const Tensor x = make<double>({3}, {3, -7, 5}), src = make<double>({3}, {4, 4, 2});
  EXPECT_EQ(reduced(x, src, ScatterReduction::sum, false), (Doubles{8, 2, 5}));
  EXPECT_EQ(reduced(x, src, ScatterReduction::prod, true), (Doubles{48, -14, 5}));
  EXPECT_EQ(reduced(x, src, ScatterReduction::amax, true), (Doubles{4, 2, 5}));
  EXPECT_EQ(reduced(x, src, ScatterReduction::amin, false), (Doubles{4, 2, 5}));
  const Tensor whole = x.to(DType::i64), other = src.to(DType::i64);
  EXPECT_EQ(reduced(whole, other, ScatterReduction::mean, true), (Doubles{3, -3, 5}));
  EXPECT_EQ(reduced(whole, other, ScatterReduction::mean, false), (Doubles{4, 2, 5}));
  EXPECT_EQ(reduced(neg(whole), neg(other), ScatterReduction::mean, true), (Doubles{-4, 2, -5}));
  EXPECT_EQ(reduced(whole, other, ScatterReduction::amax, false), (Doubles{4, 2, 5}));
}

TEST(ScatterReduce, KeepsNaNAndRefusesMeansOfBools) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = make<double>({3}, {nan, 1, 2}), src = make<double>({3}, {1, 2, nan});
  const Doubles result = list(scatter_reduce(x, 0, at({0, 0, 1}), src, ScatterReduction::amax));
  EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]) && result[2] == 2);
  const Tensor mask = zeros({3}, {.dtype = DType::boolean});
  EXPECT_EQ(scatter_reduce(mask, 0, at({0}), mask, ScatterReduction::amax).dtype(), DType::boolean);
  EXPECT_THROW((void)scatter_reduce(mask, 0, at({0}), mask, ScatterReduction::mean), DTypeError);
  EXPECT_THROW((void)scatter_reduce(x, 0, at({3}), src, ScatterReduction::sum), IndexError);
  EXPECT_THROW((void)scatter_reduce(x, 0, at({0}), src.to(DType::f32), ScatterReduction::sum), DTypeError);
}

/// Second derivatives of dx + 2 ds0 + 3 ds1 for the product x s0 s1, by x, s0 and s1.
Doubles second_of_product(double x_value, Doubles values) {
  const Tensor x = make<double>({1}, {x_value}), src = make<double>({2}, values);
  x.requires_grad_();
  src.requires_grad_();
  const Tensor y = scatter_reduce(x, 0, at({0, 0}), src, ScatterReduction::prod);
  const Tensors first = grad(sum(y), {x, src}, {.create_graph = true});
  const Tensors second = grad(add(sum(first[0]), sum(mul(first[1], make<double>({2}, {2, 3})))), {x, src});
  return {list(second[0])[0], list(second[1])[0], list(second[1])[1]};
}

TEST(ScatterReduce, DifferentiatesProductsWithZeros) {
  // 2 s1 + 3 s0, s1 + 3 x, s0 + 2 x
  EXPECT_EQ(second_of_product(2, {5, 3}), (Doubles{21, 9, 9}));
  EXPECT_EQ(second_of_product(2, {0, 3}), (Doubles{6, 9, 4}));
  EXPECT_EQ(second_of_product(0, {0, 3}), (Doubles{6, 3, 0}));
  EXPECT_EQ(second_of_product(0, {0, 0}), (Doubles{0, 0, 0}));
}

TEST(ScatterReduce, SharesTheGradientAmongEqualOnes) {
  const Tensor x = make<double>({3}, {3, 1, 0}), src = make<double>({3}, {3, 3, 2});
  x.requires_grad_();
  src.requires_grad_();
  const Tensors both = grad(sum(scatter_reduce(x, 0, at({0, 0, 1}), src, ScatterReduction::amax)), {x, src});
  EXPECT_EQ(list(both[0]), (Doubles{1.0 / 3, 0, 1}));
  EXPECT_EQ(list(both[1]), (Doubles{1.0 / 3, 1.0 / 3, 1}));
  const Tensors one =
      grad(sum(scatter_reduce(x, 0, at({0, 0, 1}), src, ScatterReduction::amax, false)), {x, src});
  EXPECT_EQ(list(one[0]), (Doubles{0, 0, 1}));
}

TEST(Scatter, AddsOrMultiplies) {
  const Tensor x = ones({3}, {.dtype = DType::f64});
  const Tensor src = make<double>({3}, {2, 3, 4});
  EXPECT_EQ(list(scatter(x, 0, at({0, 0, 1}), src, ScatterMode::multiply)), (Doubles{6, 4, 1}));
  EXPECT_EQ(list(scatter(x, 0, at({0, 0, 1}), 5, ScatterMode::add)), (Doubles{11, 6, 1}));
}

TEST(IndexSelect, TakesI32AndRefusesSeveralDims) {
  const Tensor x = counted({2, 2});
  EXPECT_EQ(list(index_select(x, 0, at({1, 0, 1}).to(DType::i32))), (Doubles{2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(index_select(x, 1, kNoIndices).shape(), (Shape{2, 0}));
  EXPECT_THROW((void)index_select(x, 0, zeros({1, 1}, {.dtype = DType::i64})), ShapeError);
  EXPECT_THROW((void)index_select(counted({}), 0, at({0, 0})), ShapeError);
  EXPECT_THROW((void)index_select(x, 0, at({-1})), IndexError);
}

TEST(IndexAdd, ScalesAndChecksAlpha) {
  const Tensor x = counted({2, 2}), src = counted({3, 2});
  EXPECT_EQ(list(index_add(x, 0, at({1, 1, 0}), src, 10)), (Doubles{40, 51, 22, 43}));
  EXPECT_THROW((void)index_add(x, 0, at({1, 0}), src), ShapeError);
  EXPECT_THROW((void)index_add(counted({2}, DType::i64), 0, at({1}), counted({1}, DType::i64), 0.5),
               DTypeError);
}

TEST(Index, CountsFromTheEndAndBroadcasts) {
  const Tensor x = counted({3, 4});
  EXPECT_EQ(list(index(x, {at({-1, 0}), at({-4, 1})})), (Doubles{8, 1}));
  EXPECT_EQ(index(x, {reshape(at({0, 1}), {2, 1}), at({0, 1, 2})}).shape(), (Shape{2, 3}));
  EXPECT_EQ(list(index(x, {tensor(std::int64_t{1})})), (Doubles{4, 5, 6, 7}));
  EXPECT_THROW((void)index(x, {at({3})}), IndexError);
  EXPECT_THROW((void)index(x, {at({-4})}), IndexError);
  EXPECT_THROW((void)index(x, {at({0, 1}), at({0, 1, 2})}), ShapeError);
  EXPECT_THROW((void)index(x, {at({0}), at({0}), at({0})}), IndexError);
  EXPECT_THROW((void)index(x, {at({0}).to(DType::f32)}), DTypeError);
  EXPECT_THROW((void)index(x, {Tensor()}), ValueError);
}

TEST(Index, PutsTheDimsOfTheIndicesInTheirPlaceOrFirst) {
  const Tensor x = counted({2, 3, 4});
  const Tensor middle = index(x, {Tensor(), at({2, 0})});
  EXPECT_EQ(middle.shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(list(middle), list(index_select(x, 1, at({2, 0}))));
  const Tensor apart = index(x, {at({1, 0, 1}), Tensor(), at({3, 0, 1})});
  EXPECT_EQ(apart.shape(), (Shape{3, 3}));
  EXPECT_EQ(list(apart), (Doubles{15, 19, 23, 0, 4, 8, 13, 17, 21}));
}

TEST(Index, TakesMasks) {
  const Tensor x = counted({2, 2});
  EXPECT_EQ(list(index(x, {tensor({true, false, true, true}, {2, 2})})), (Doubles{0, 2, 3}));
  EXPECT_EQ(index(x, {tensor({false, false})}).shape(), (Shape{0, 2}));
  EXPECT_EQ(list(index(x, {Tensor(), tensor({false, true})})), (Doubles{1, 3}));
  EXPECT_THROW((void)index(x, {tensor({true, false, true})}), IndexError);
  EXPECT_THROW((void)index(x, {tensor(true)}), IndexError);
}

TEST(IndexPut, WritesOrAdds) {
  const Tensor x = counted({3});
  EXPECT_EQ(list(index_put(x, {at({0, -3})}, make<double>({2}, {5, 6}))), (Doubles{6, 1, 2}));
  EXPECT_EQ(list(index_put(x, {at({0, -3})}, make<double>({2}, {5, 6}), true)), (Doubles{11, 1, 2}));
  EXPECT_EQ(list(index_put(x, {tensor({true, false, true})}, make<double>({}, {9}))), (Doubles{9, 1, 9}));
  EXPECT_EQ(list(index_put(x, {kNoIndices}, make<double>({}, {9}))), list(x));
  EXPECT_THROW((void)index_put(x, {at({0, 1})}, make<double>({3}, {1, 2, 3})), ShapeError);
  EXPECT_THROW((void)index_put(x, {at({0})}, make<float>({}, {1})), DTypeError);
  EXPECT_THROW((void)index_put(x, {at({0})}, Tensor()), ValueError);
}

TEST(Sort, KeepsTiesInOrderAndPutsNaNAtTheLargeEnd) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const Tensor x = make<double>({6}, {1, nan, -inf, 1, inf, nan});
  EXPECT_EQ(list(sort(x).indices), (Doubles{2, 0, 3, 4, 1, 5}));
  EXPECT_EQ(list(sort(x, 0, true).indices), (Doubles{1, 5, 4, 0, 3, 2}));
  EXPECT_EQ(list(topk(x, 3).indices), (Doubles{1, 5, 4}));
  EXPECT_EQ(list(topk(x, 3, 0, false).values), (Doubles{-inf, 1, 1}));
  EXPECT_EQ(list(sort(make<double>({2}, {0.0, -0.0})).indices), (Doubles{0, 1}));
  EXPECT_EQ(list(sort(tensor({3, 1, 2})).values), (Doubles{1, 2, 3}));
}

TEST(Sort, TakesEmptyTensorsAndRefusesAWrongK) {
  EXPECT_EQ(sort(counted({2, 0})).values.shape(), (Shape{2, 0}));
  EXPECT_EQ(sort(counted({0, 2})).indices.dtype(), DType::i64);
  EXPECT_EQ(list(sort(counted({})).indices), Doubles{0});
  EXPECT_EQ(topk(counted({3}), 0).values.shape(), Shape{0});
  EXPECT_EQ(list(topk(make<double>({3}, {1, 3, 2}), 3, 0, true, false).values), (Doubles{3, 2, 1}));
  EXPECT_EQ(list(argsort(make<double>({3}, {1, 3, 2}), 0, true)), (Doubles{1, 2, 0}));
  EXPECT_THROW((void)topk(counted({3}), 4), ValueError);
  EXPECT_THROW((void)topk(counted({3}), -1), ValueError);
  EXPECT_THROW((void)sort(counted({3}), 1), IndexError);
}

}  // namespace
}  // namespace mezzo
