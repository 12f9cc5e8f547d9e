// embedding_bag against values and gradients of torch.nn.functional.embedding_bag (2.15, f64).
#include <gtest/gtest.h>

#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

// W = (torch.arange(12.).reshape(6, 2) * 0.7).sin(); index and offsets as below; the gradient is of
// (y * torch.arange(1, 9).reshape(4, 2)).sum().
Tensor weight() { return sin(arange(12, {.dtype = DType::f64}).reshape({6, 2}) * 0.7); }
const Tensor kIndex = tensor({1, 2, 4, 5, 4, 3, 2, 0});
const Tensor kOffsets = tensor({0, 3, 3, 6});
Tensor f64(std::initializer_list<double> values, const Shape& shape) {
  return tensor(values, shape, {.dtype = DType::f64});
}
Tensor factors() { return arange(1, 9, {.dtype = DType::f64}).reshape({4, 2}); }

struct Expected {
  BagMode mode;
  Tensor value, gradient, of_rows_padded;
};
std::vector<Expected> expected() {
  return {
      {BagMode::sum,
       f64({0.689171242, 0.529240039, 0, 0, -0.845855812, 0.0225295217, 0.33498815, 0.29343446}, {4, 2}),
       f64({7, 8, 1, 2, 8, 10, 5, 6, 6, 8, 5, 6}, {6, 2}),
       f64({1.97742448, 1.50059437, -0.536587622, -0.689018153}, {2, 2})},
      {BagMode::mean,
       f64({0.229723747, 0.176413346, 0, 0, -0.281951937, 0.00750984058, 0.167494075, 0.14671723}, {4, 2}),
       f64({3.5, 4, 1.0 / 3, 2.0 / 3, 3.5 + 1.0 / 3, 4 + 2.0 / 3, 5.0 / 3, 2, 2, 8.0 / 3, 5.0 / 3, 2},
           {6, 2}),
       f64({0.659141493, 0.500198124, -0.178862541, -0.229672718}, {2, 2})},
      {BagMode::max,
       f64({0.98544973, 0.863209367, 0, 0, 0.656986599, 0.988168234, 0.33498815, 0.644217687}, {4, 2}),
       f64({0, 8, 1, 2, 7, 0, 0, 0, 0, 0, 5, 6}, {6, 2}),
       f64({0.98544973, 0.988168234, 0.33498815, 0.644217687}, {2, 2})}};
}
constexpr double kDigits = 1e-8;  // of the numbers above

TEST(EmbeddingBag, EqualsTorch) {
  for (const Expected& one : expected()) {
    SCOPED_TRACE(static_cast<int>(one.mode));
    const Tensor w = weight().requires_grad_();
    const Tensor y = embedding_bag(kIndex, w, kOffsets, {.mode = one.mode});
    EXPECT_TRUE(allclose(y, one.value, 0, kDigits)) << y;
    (y * factors()).sum().backward();
    EXPECT_TRUE(allclose(w.grad(), one.gradient, 0, kDigits)) << w.grad();
    const Tensor rows =
        embedding_bag(kIndex.view({2, 4}), weight(), {}, {.mode = one.mode, .padding_idx = -2});
    EXPECT_TRUE(allclose(rows, one.of_rows_padded, 0, kDigits)) << rows;
  }
}

TEST(EmbeddingBag, FactorsEqualTorch) {
  const Tensor w = weight().requires_grad_();
  const Tensor f = f64({.5, 1, -1, 2, .25, 3, 1, -2}, {8}).requires_grad_();
  const Tensor y = embedding_bag(kIndex, w, kOffsets, {.mode = BagMode::sum, .per_sample_weights = f});
  EXPECT_TRUE(allclose(
      y, f64({1.45897965, 0.0640075552, 0, 0, -1.45857078, -0.966817895, 0.33498815, -1.6392186}, {4, 2}), 0,
      kDigits));
  (y * factors()).sum().backward();
  EXPECT_TRUE(
      allclose(w.grad(), f64({-14, -16, 0.5, 1, 8, 10, 15, 18, 0.25, -0.5, 10, 12}, {6, 2}), 0, kDigits));
  EXPECT_TRUE(allclose(f.grad(),
                       f64({2.71186846, -0.366578305, -0.597638837, 9.2139424, -3.05544979, -10.2525945,
                            -0.46134877, 5.1537415},
                           {8}),
                       kDigits, 0));
}

TEST(EmbeddingBag, TheLastOffsetMayBeTheEnd) {
  const Tensor y =
      embedding_bag(kIndex, weight(), tensor({0, 3, 8}), {.mode = BagMode::sum, .include_last_offset = true});
  EXPECT_TRUE(allclose(y, f64({0.689171242, 0.529240039, -0.510867661, 0.315963981}, {2, 2}), 0, kDigits));
}

TEST(EmbeddingBag, RoundsOnceTo16Bits) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor w = weight().to(dtype);
    for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
      const Tensor y = embedding_bag(kIndex, w, kOffsets, {.mode = mode});
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_TRUE(equal(y, embedding_bag(kIndex, w.to(DType::f32), kOffsets, {.mode = mode}).to(dtype)));
    }
  }
}

TEST(EmbeddingBag, HasSecondGradients) {
  const Tensor w = weight().requires_grad_();
  const Tensor f = ones({8}, DType::f64).requires_grad_();
  const Tensor y = embedding_bag(kIndex, w, kOffsets, {.mode = BagMode::sum, .per_sample_weights = f});
  const Tensor first = grad(square(y).sum(), {w}, {.create_graph = true})[0];
  first.sum().backward();  // d/df of sum_r 2 sum_b (sum of f in bag b of row r) y_b
  EXPECT_TRUE(f.grad().defined());
  // In direction d of f by a difference of first gradients.
  const double step = 1e-6;
  const auto total = [&](double shift) {
    const Tensor moved = f.detach().clone();
    moved[3] += shift;
    const Tensor v = weight().requires_grad_();
    const Tensor z = embedding_bag(kIndex, v, kOffsets, {.mode = BagMode::sum, .per_sample_weights = moved});
    return grad(square(z).sum(), {v})[0].sum().item();
  };
  EXPECT_NEAR(f.grad()[3].item(), (total(step) - total(-step)) / (2 * step), 1e-6);
}

TEST(EmbeddingBag, EdgesAndRefusals) {
  const Tensor w = ones({3, 2});
  EXPECT_EQ(embedding_bag(zeros({0}, DType::i64), w, zeros({0}, DType::i64)).shape(), (Shape{0, 2}));
  EXPECT_TRUE(equal(embedding_bag(zeros({0}, DType::i64), w, tensor({0, 0})), zeros({2, 2})));
  EXPECT_TRUE(equal(embedding_bag(zeros({2, 0}, DType::i64), w, {}, {.mode = BagMode::max}), zeros({2, 2})));
  const Tensor index = tensor({0, 1, 2});
  EXPECT_THROW(static_cast<void>(embedding_bag(index, w)), ValueError);
  EXPECT_THROW(static_cast<void>(embedding_bag(index.view({1, 3}), w, tensor({0}))), ValueError);
  EXPECT_THROW(static_cast<void>(embedding_bag(index, w, tensor({1}))), ValueError);
  EXPECT_THROW(static_cast<void>(embedding_bag(index, w, tensor({0, 2, 1}))), ValueError);
  EXPECT_THROW(static_cast<void>(embedding_bag(index, w, tensor({0, 4}))), ValueError);
  EXPECT_THROW(static_cast<void>(embedding_bag(index, w, tensor({0, 2}), {.include_last_offset = true})),
               ValueError);
  EXPECT_THROW(static_cast<void>(embedding_bag(index, w, tensor({{0, 2}}))), ShapeError);
  EXPECT_THROW(static_cast<void>(embedding_bag(tensor({0, 3}), w, tensor({0}))), IndexError);
  EXPECT_THROW(static_cast<void>(embedding_bag(index, ones({3, 2}, DType::i64), tensor({0}))), DTypeError);
  EXPECT_THROW(static_cast<void>(embedding_bag(index, w, tensor({0}), {.per_sample_weights = ones({3})})),
               ValueError);
  EXPECT_THROW(static_cast<void>(embedding_bag(index, w, tensor({0}),
                                               {.mode = BagMode::sum, .per_sample_weights = ones({2})})),
               ShapeError);
  EXPECT_THROW(
      static_cast<void>(embedding_bag(index, w, tensor({0}),
                                      {.mode = BagMode::sum, .per_sample_weights = ones({3}, DType::f64)})),
      DTypeError);
}

TEST(EmbeddingBagLayer, CallsTheFunction) {
  manual_seed(1);
  nn::EmbeddingBag layer(6, 2, {.mode = BagMode::sum, .padding_idx = 4});
  EXPECT_TRUE(equal(layer.weight[4], zeros({2})));
  EXPECT_TRUE(equal(layer(kIndex, kOffsets),
                    embedding_bag(kIndex, layer.weight, kOffsets, {.mode = BagMode::sum, .padding_idx = 4})));
  const Tensor f = randn({2, 4});
  EXPECT_TRUE(equal(layer(kIndex.view({2, 4}), {}, f),
                    embedding_bag(kIndex.view({2, 4}), layer.weight, {},
                                  {.mode = BagMode::sum, .per_sample_weights = f, .padding_idx = 4})));
  EXPECT_EQ(to_string(layer), "EmbeddingBag(6, 2, padding_idx=4, mode=sum)");
  EXPECT_THROW(nn::EmbeddingBag(0, 2), ValueError);
  EXPECT_THROW(nn::EmbeddingBag(3, 2, {.padding_idx = 3}), ValueError);
}

}  // namespace
}  // namespace mezzo
