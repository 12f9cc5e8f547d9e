// Ops that choose elements: values counted by hand, gradients, edges and refusals. (The sweep has the ops
// with descriptors, against finite differences.)
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

TEST(Nonzero, ListsPositionsInRowMajorOrder) {
  EXPECT_TRUE(equal(nonzero(tensor({{0, 2}, {3, 0}, {4, 5}})), tensor({{0, 1}, {1, 0}, {2, 0}, {2, 1}})));
  EXPECT_TRUE(equal(nonzero(tensor({0.0, kNan, -0.0, -1})), tensor({{1}, {3}})));
  EXPECT_TRUE(equal(nonzero(transpose(tensor({{0, 1}, {1, 1}}), 0, 1)), tensor({{0, 1}, {1, 0}, {1, 1}})));
  EXPECT_EQ(nonzero(zeros({3, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(nonzero(zeros({0, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(nonzero(tensor(5)).shape(), (Shape{1, 0}));
  EXPECT_EQ(nonzero(tensor(0)).shape(), (Shape{0, 0}));
}

TEST(MaskedSelect, BroadcastsAndHasGradients) {
  const Tensor x = tensor({{1.0, 2}, {3.0, 4}}).requires_grad_();
  EXPECT_TRUE(equal(masked_select(x, x > 1), tensor({2.0, 3.0, 4.0})));
  EXPECT_TRUE(equal(masked_select(x, tensor({false, true})), tensor({2.0, 4.0})));
  EXPECT_TRUE(equal(masked_select(tensor({1, 2}), tensor({{true, true}, {false, true}})), tensor({1, 2, 2})));
  EXPECT_TRUE(equal(masked_select(tensor(3), tensor(true)), tensor({3})));
  EXPECT_EQ(masked_select(x, zeros({2}, DType::boolean)).shape(), (Shape{0}));
  square(masked_select(x, tensor({{true}, {false}}))).sum().backward();
  EXPECT_TRUE(equal(x.grad(), tensor({{2.0, 4}, {0.0, 0}})));
  EXPECT_THROW(static_cast<void>(masked_select(x, ones({2}))), DTypeError);
  EXPECT_THROW(static_cast<void>(masked_select(x, ones({3}, DType::boolean))), ShapeError);
}

TEST(IndexCopy, PutsPositions) {
  const Tensor x = zeros({3, 2}).requires_grad_(), src = tensor({{1.0, 2}, {3.0, 4}}).requires_grad_();
  const Tensor y = index_copy(x, 0, tensor({2, 0}), src);
  EXPECT_TRUE(equal(y, tensor({{3.0, 4}, {0.0, 0}, {1.0, 2}})));
  (y * tensor({{1.0, 2}, {3.0, 4}, {5.0, 6}})).sum().backward();
  EXPECT_TRUE(equal(x.grad(), tensor({{0.0, 0}, {3.0, 4}, {0.0, 0}})));
  EXPECT_TRUE(equal(src.grad(), tensor({{5.0, 6}, {1.0, 2}})));
  EXPECT_TRUE(
      equal(index_copy(zeros({2, 3}), -1, tensor({1}), ones({2, 1})), tensor({{0, 1, 0}, {0, 1, 0}})));
  EXPECT_THROW(static_cast<void>(index_copy(x, 0, tensor({3}), ones({1, 2}))), IndexError);
  EXPECT_THROW(static_cast<void>(index_copy(x, 0, tensor({1}), ones({2, 2}))), ShapeError);
  EXPECT_THROW(static_cast<void>(index_copy(x, 0, tensor({{1}}), ones({1, 2}))), ShapeError);
  EXPECT_THROW(static_cast<void>(index_copy(x, 2, tensor({1}), ones({1, 2}))), IndexError);
  EXPECT_THROW(static_cast<void>(index_copy(x, 0, tensor({1}), ones({1, 2}, DType::f16))), DTypeError);
}

TEST(Kthvalue, CountsFromTheSmallest) {
  const Tensor x = tensor({{3.0, 1, 2}, {5.0, kNan, 4}}).requires_grad_();
  const auto [values, indices] = kthvalue(x, 2);
  EXPECT_TRUE(equal(values, tensor({2.0, 5.0})));
  EXPECT_TRUE(equal(indices, tensor({2, 0})));
  values.sum().backward();
  EXPECT_TRUE(equal(x.grad(), tensor({{0.0, 0, 1}, {1.0, 0, 0}})));
  EXPECT_TRUE(std::isnan(kthvalue(x, 3).values[1].item()));
  EXPECT_EQ(kthvalue(x, 1, 0, true).values.shape(), (Shape{1, 3}));
  EXPECT_TRUE(equal(kthvalue(tensor({2, 1, 2, 1}), 2).indices, tensor(3)));
  EXPECT_EQ(kthvalue(tensor(7.0), 1).values.item(), 7);
  EXPECT_THROW(static_cast<void>(kthvalue(x, 0)), ValueError);
  EXPECT_THROW(static_cast<void>(kthvalue(x, 4)), ValueError);
  EXPECT_THROW(static_cast<void>(kthvalue(x, 1, 2)), IndexError);
}

TEST(Median, TakesTheLowerMiddleAndNaN) {
  const Tensor x = tensor({{4.0, 1, 3, 2}, {8.0, 5, 6, 7}}).requires_grad_();
  EXPECT_EQ(median(x).item(), 4);
  const auto [values, indices] = median(x, 1);
  EXPECT_TRUE(equal(values, tensor({2.0, 6.0})));
  EXPECT_TRUE(equal(indices, tensor({3, 2})));
  square(values).sum().backward();
  EXPECT_TRUE(equal(x.grad(), tensor({{0.0, 0, 0, 4}, {0.0, 0, 12, 0}})));
  EXPECT_EQ(median(tensor({3, 1, 2})).item(), 2);
  const ValuesIndices with_nan = median(tensor({{1.0, kNan, kInf, kNan}, {kInf, 1, 2, 3}}), 1, true);
  EXPECT_TRUE(std::isnan(with_nan.values[0].item()));
  EXPECT_TRUE(equal(with_nan.indices, tensor({{1}, {2}})));
  EXPECT_EQ(median(tensor(2.0), 0).values.dim(), 0);
  EXPECT_THROW(static_cast<void>(median(zeros({2, 0}), 1)), ShapeError);
}

TEST(Bernoulli, IsAsOftenOneAsItsProbability) {
  manual_seed(5);
  const Tensor drawn = bernoulli(full({20000}, 0.3));
  EXPECT_TRUE(equal(drawn, square(drawn)));
  EXPECT_NEAR(drawn.mean().item(), 0.3, 5 * std::sqrt(0.21 / 20000));
  EXPECT_TRUE(equal(bernoulli(tensor({0.0, 1.0, kNan, 2.0, -1.0})), tensor({0.0, 1.0, 0.0, 1.0, 0.0})));
  EXPECT_EQ(bernoulli(ones({2}, DType::f16)).dtype(), DType::f16);
  EXPECT_THROW(static_cast<void>(bernoulli(tensor({1}))), DTypeError);
}

TEST(Multinomial, DrawsByWeight) {
  manual_seed(6);
  const Tensor weights = tensor({1.0, 0.0, 3.0, 4.0});
  const Tensor drawn = multinomial(weights, 20000, true);
  const Tensor share = bincount(drawn, {}, 4).to(DType::f32) / 20000;
  EXPECT_EQ(share[1].item(), 0);
  for (const auto& [i, p] : {std::pair{0, 0.125}, std::pair{2, 0.375}, std::pair{3, 0.5}})
    EXPECT_NEAR(share[i].item(), p, 5 * std::sqrt(p * (1 - p) / 20000));
  // The scale does not matter, and neither does the dtype.
  EXPECT_EQ(multinomial(weights * 1e30, 3, true).shape(), (Shape{3}));
  EXPECT_EQ(multinomial(weights.to(DType::f16).expand({5, 4}), 2, true).shape(), (Shape{5, 2}));
}

TEST(Multinomial, WithoutReplacementTakesEachOnce) {
  manual_seed(7);
  double first_is_heavy = 0;
  for (int i = 0; i < 400; ++i) {
    const Tensor drawn = multinomial(tensor({{1.0, 1, 0, 6}}), 3);
    EXPECT_TRUE(equal(drawn.sort(1).values, tensor({{0, 1, 3}})));
    first_is_heavy += drawn[{0, 0}].item() == 3 ? 1 : 0;
  }
  EXPECT_NEAR(first_is_heavy / 400, 0.75, 5 * std::sqrt(0.1875 / 400));
}

TEST(Multinomial, IsTheSameForOneSeedAndRefuses) {
  manual_seed(8);
  const Tensor a = multinomial(rand({3, 50}), 4);
  manual_seed(8);
  EXPECT_TRUE(equal(a, multinomial(rand({3, 50}), 4)));
  for (const Tensor& weights : {tensor({0.0, 0}), tensor({1.0, -1}), tensor({1.0, kInf}), tensor({kNan, 1})})
    EXPECT_THROW(static_cast<void>(multinomial(weights, 1, true)), ValueError) << weights;
  EXPECT_THROW(static_cast<void>(multinomial(tensor({1.0, 0}), 2)), ValueError);
  EXPECT_THROW(static_cast<void>(multinomial(ones({3}), 0)), ValueError);
  EXPECT_THROW(static_cast<void>(multinomial(ones({1, 1, 1}), 1)), ShapeError);
  EXPECT_THROW(static_cast<void>(multinomial(tensor({1, 2}), 1)), DTypeError);
}

TEST(Bincount, CountsAndAddsWeights) {
  EXPECT_TRUE(equal(bincount(tensor({1, 3, 1})), tensor({0, 2, 0, 1})));
  EXPECT_TRUE(equal(bincount(tensor({1, 3, 1}), tensor({0.5, 2.0, 1.0}), 5), tensor({0.0, 1.5, 0, 2, 0})));
  EXPECT_EQ(bincount(zeros({0}, DType::i64)).shape(), (Shape{0}));
  EXPECT_TRUE(equal(bincount(tensor({2}, DType::i32)), tensor({0, 0, 1})));
  EXPECT_THROW(static_cast<void>(bincount(tensor({-1}))), ValueError);
  EXPECT_THROW(static_cast<void>(bincount(tensor({1}), {}, -1)), ValueError);
  EXPECT_THROW(static_cast<void>(bincount(tensor({{1}}))), ShapeError);
  EXPECT_THROW(static_cast<void>(bincount(tensor({1, 2}), ones({3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(bincount(tensor({1.0}))), DTypeError);
}

TEST(Diff, OfAnyOrder) {
  const Tensor x = tensor({{1, 4, 9, 16}, {0, 1, 0, 1}});
  EXPECT_TRUE(equal(diff(x), tensor({{3, 5, 7}, {1, -1, 1}})));
  EXPECT_TRUE(equal(diff(x, 2), tensor({{2, 2}, {-2, 2}})));
  EXPECT_TRUE(equal(diff(x, 1, 0), tensor({{-1, -3, -9, -15}})));
  EXPECT_TRUE(equal(diff(x, 0), x));
  const Tensor y = tensor({1.0, 4, 9, 16}).requires_grad_();
  const Tensor slope = grad((diff(y, 2) * tensor({1.0, 10})).sum(), y)[0];
  EXPECT_TRUE(equal(slope, tensor({1.0, 8, -19, 10})));
  EXPECT_EQ(diff(x, 4).shape(), (Shape{2, 0}));
  EXPECT_TRUE(equal(diff(tensor({true, false, false})), tensor({true, false})));
  EXPECT_THROW(static_cast<void>(diff(x, -1)), ValueError);
  EXPECT_THROW(static_cast<void>(diff(tensor(1))), IndexError);
}

TEST(Fmod, HasTheSignOfTheDividend) {
  EXPECT_TRUE(
      equal(fmod(tensor({5.5, -5.5, 5.5, -5.5}), tensor({2.0, 2, -2, -2})), tensor({1.5, -1.5, 1.5, -1.5})));
  EXPECT_TRUE(equal(fmod(tensor({7, -7, 7}), tensor({3, 3, 0})), tensor({1, -1, 7})));
  EXPECT_TRUE(equal(fmod(tensor({-7, 8}), 3), tensor({-1, 2})));
  EXPECT_TRUE(std::isnan(fmod(tensor({1.0}), 0).item()));
  EXPECT_TRUE(std::isnan(fmod(tensor({kInf}), 2).item()));
  const Tensor a = tensor({5.5}).requires_grad_(), b = tensor({-2.0}).requires_grad_();
  fmod(a, b).sum().backward();
  EXPECT_EQ(a.grad().item(), 1);
  EXPECT_EQ(b.grad().item(), 2);  // -trunc(-2.75)
  EXPECT_THROW(static_cast<void>(fmod(tensor({true}), tensor({true}))), DTypeError);
}

TEST(Glu, IsOneRounding) {
  const Tensor x = tensor({1.0, -2.0, 0.5, 3.0});
  const Tensor expected = tensor({1 / (1 + std::exp(-0.5)), -2 / (1 + std::exp(-3.0))});
  EXPECT_TRUE(allclose(glu(x), expected, 1e-6));
  EXPECT_TRUE(equal(glu(x.to(DType::bf16)), glu(x).to(DType::bf16)));
  EXPECT_EQ(glu(ones({4, 3}), 0).shape(), (Shape{2, 3}));
  EXPECT_THROW(static_cast<void>(glu(ones({3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(glu(tensor({1, 2}))), DTypeError);
}

TEST(Vecdot, SumsInF32) {
  EXPECT_TRUE(equal(vecdot(tensor({{1, 2}, {3, 4}}), tensor({5, 6})), tensor({17, 39})));
  const Tensor h = full({4096}, 0.01, DType::f16);
  EXPECT_NEAR(vecdot(h, h).item(), 4096 * h[0].item() * h[0].item(), 0x1p-12);  // a unit of f16 there
  EXPECT_THROW(static_cast<void>(vecdot(ones({2}), ones({3}))), ShapeError);
}

TEST(Meshgrid, IsAGridOfViews) {
  const Tensor a = tensor({1, 2, 3}), b = tensor({4, 5});
  const Tensors ij = meshgrid({a, b}), xy = meshgrid({a, b}, MeshIndexing::xy);
  EXPECT_TRUE(equal(ij[0], tensor({{1, 1}, {2, 2}, {3, 3}})));
  EXPECT_TRUE(equal(ij[1], tensor({{4, 5}, {4, 5}, {4, 5}})));
  EXPECT_TRUE(equal(xy[0], tensor({{1, 2, 3}, {1, 2, 3}})));
  EXPECT_TRUE(equal(xy[1], tensor({{4, 4, 4}, {5, 5, 5}})));
  EXPECT_EQ(meshgrid({tensor(1), a, b})[2].shape(), (Shape{1, 3, 2}));
  EXPECT_THROW(static_cast<void>(meshgrid({})), ValueError);
  EXPECT_THROW(static_cast<void>(meshgrid({ones({2, 2})})), ShapeError);
}

TEST(TriangleIndices, AreThoseOfTrilAndTriu) {
  EXPECT_TRUE(equal(tril_indices(3, 2), tensor({{0, 1, 1, 2, 2}, {0, 0, 1, 0, 1}})));
  EXPECT_TRUE(equal(tril_indices(2, 2, -1), tensor({{1}, {0}})));
  EXPECT_TRUE(equal(triu_indices(2, 3, 1), tensor({{0, 0, 1}, {1, 2, 2}})));
  EXPECT_EQ(triu_indices(0, 3).shape(), (Shape{2, 0}));
  EXPECT_THROW(static_cast<void>(tril_indices(-1, 2)), ValueError);
}

TEST(Unbind, GivesEachPosition) {
  const Tensor x = tensor({{1.0, 2}, {3.0, 4}}).requires_grad_();
  const Tensors columns = unbind(x, 1);
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_TRUE(equal(columns[1], tensor({2.0, 4.0})));
  (columns[0] * columns[1]).sum().backward();
  EXPECT_TRUE(equal(x.grad(), tensor({{2.0, 1}, {4.0, 3}})));
  EXPECT_TRUE(unbind(zeros({0, 2})).empty());
  EXPECT_THROW(static_cast<void>(unbind(tensor(1))), IndexError);
}

}  // namespace
}  // namespace mezzo
