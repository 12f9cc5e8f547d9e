// quantile, nanquantile, unique, unique_consecutive and histc against PyTorch, their gradients and refusals.
#include <gtest/gtest.h>

#include "mezzo/ops/factory.h"
#include "mezzo/ops/selection.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo {
namespace {

using namespace test;
using Way = QuantileInterpolation;

Tensor three_rows() { return leaf({3, 4}, {3, 1, 4, 1.5, 2, 7, 1, 8, -1, 0, 5, 2.5}); }
Tensor tenths() { return make<double>({0.1, 0.5, 0.9}); }

// torch.quantile(x, torch.tensor([.1, .5, .9]), dim=1, interpolation=m) for the x of three_rows()
TEST(Quantile, IsPyTorchsForEveryInterpolation) {
  const Tensor x = three_rows();
  const std::vector<std::pair<Way, Doubles>> cases{
      {Way::linear, {1.15, 1.3, -0.7, 2.25, 4.5, 1.25, 3.7, 7.7, 4.25}},
      {Way::lower, {1, 1, -1, 1.5, 2, 0, 3, 7, 2.5}},
      {Way::higher, {1.5, 2, 0, 3, 7, 2.5, 4, 8, 5}},
      {Way::midpoint, {1.25, 1.5, -0.5, 2.25, 4.5, 1.25, 3.5, 7.5, 3.75}},
      {Way::nearest, {1, 1, -1, 3, 7, 2.5, 4, 8, 5}}};
  for (const auto& [interpolation, want] : cases) {
    const Way way = interpolation;  // clang 14 captures no binding
    const Tensor y = quantile(x, tenths(), {.dim = 1, .interpolation = way});
    EXPECT_EQ(y.shape(), (Shape{3, 3}));
    expect_near(y, want, 1e-15, 1e-15);
    expect_derivatives(
        "quantile",
        [&](const Tensors& in) { return quantile(in[0], tenths(), {.dim = 1, .interpolation = way}); }, {x});
  }
}

// torch.quantile(x, q), torch.quantile(x, .3, dim=0, keepdim=True)
TEST(Quantile, OfAllElementsAndShapes) {
  const Tensor x = three_rows();
  expect_near(quantile(x, tenths()), {0.10000000000000009, 2.25, 6.800000000000001}, 1e-14);
  expect_near(quantile(x, 0.3, {.dim = 0, .keepdim = true}), {0.8, 0.6, 2.8, 2.1}, 1e-14);
  EXPECT_EQ(quantile(x, 0.3, {.dim = 0, .keepdim = true}).shape(), (Shape{1, 4}));
  EXPECT_EQ(quantile(x, 0.3).shape(), Shape{});
  EXPECT_EQ(quantile(x, 0.3, {.keepdim = true}).shape(), (Shape{1, 1}));
  const Tensor cube = zeros({2, 3, 4}, {.dtype = DType::f64});
  EXPECT_EQ(quantile(cube, tenths(), {.dim = 1, .keepdim = true}).shape(), (Shape{3, 2, 1, 4}));
  EXPECT_EQ(quantile(cube, tenths(), {.dim = -1}).shape(), (Shape{3, 2, 3}));
  EXPECT_EQ(quantile(cube, tenths(), {.keepdim = true}).shape(), (Shape{3, 1, 1, 1}));
  EXPECT_EQ(quantile(full({}, 2.0), 0.3, {.dim = 0}).item(), 2);
  EXPECT_EQ(quantile(zeros({0, 3}), 0.5, {.dim = 1}).shape(), (Shape{0}));
}

// y = x with NaN; torch.quantile(y, .4, dim=1), torch.nanquantile(y, q, dim=1), torch.nanquantile(y, .4)
TEST(Quantile, OfNans) {
  const Tensor y = make<double>({3, 4}, {3, kNan, 4, 1.5, 2, 7, 1, 8, kNan, kNan, kNan, kNan});
  expect_near(quantile(y, 0.4, {.dim = 1}), {kNan, 3, kNan}, 1e-15);
  expect_near(nanquantile(y, tenths(), {.dim = 1}), {1.8, 1.3, kNan, 3.0, 4.5, kNan, 3.8, 7.7, kNan}, 1e-15);
  expect_near(nanquantile(y, 0.4), {2.4}, 1e-15);
  const Tensor x = y.clone().requires_grad_();
  nanquantile(narrow(x, 0, 0, 1), 0.25).sum().backward();
  EXPECT_EQ(list(select(x.grad(), 0, 0)), (Doubles{0.5, 0, 0, 0.5}));
}

TEST(Quantile, OfEveryDtype) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Tensor x = to(three_rows(), dtype), y = quantile(x, tenths(), {.dim = 1});
    EXPECT_EQ(y.dtype(), dtype);
    expect_near(y, list(quantile(to(x, DType::f64), tenths(), {.dim = 1})),
                dtype == DType::bf16  ? 0x1p-8
                : dtype == DType::f16 ? 0x1p-11
                                      : 0x1p-22);
  }
  const Tensor x = strided_copy(three_rows());
  EXPECT_TRUE(same_bits(quantile(x, tenths(), {.dim = 1}), quantile(three_rows(), tenths(), {.dim = 1})));
}

TEST(Quantile, Refusals) {
  const Tensor x = three_rows();
  EXPECT_EQ(
      message_of<Error>([&] { return quantile(x, 1.5); }).find("quantile: expected q in [0, 1], got 1.5"),
      0U);
  EXPECT_THROW(static_cast<void>(quantile(x, kNan)), ValueError);
  EXPECT_THROW(static_cast<void>(nanquantile(x, -0.1)), ValueError);
  EXPECT_THROW(static_cast<void>(quantile(x, zeros({1, 1}))), ShapeError);
  EXPECT_THROW(static_cast<void>(quantile(zeros({0}), 0.5)), ShapeError);
  EXPECT_THROW(static_cast<void>(quantile(indices({1, 2}), 0.5)), DTypeError);
  EXPECT_THROW(static_cast<void>(nanquantile(x, indices({0, 1}))), DTypeError);
  EXPECT_THROW(static_cast<void>(quantile(x, 0.5, {.dim = 2})), IndexError);
  EXPECT_THROW(static_cast<void>(quantile(Tensor(), 0.5)), ValueError);
  EXPECT_THROW(static_cast<void>(nanquantile(Tensor(), 0.5)), ValueError);
}

TEST(Unique, SortsElements) {
  const Tensor x = indices({2, 3}, {3, 1, 2, 1, 3, 3});
  const UniqueValues all = unique(x, {.return_inverse = true, .return_counts = true});
  EXPECT_EQ(list(all.values), (Doubles{1, 2, 3}));
  EXPECT_EQ(list(all.inverse), (Doubles{2, 0, 1, 0, 2, 2}));
  EXPECT_EQ(all.inverse.shape(), x.shape());
  EXPECT_EQ(list(all.counts), (Doubles{2, 1, 3}));
  EXPECT_FALSE(unique(x).inverse.defined());
  EXPECT_FALSE(unique(x).counts.defined());
  EXPECT_EQ(unique(x).values.dtype(), DType::i64);
  EXPECT_EQ(list(unique(bools({3}, {1, 0, 1})).values), (Doubles{0, 1}));
  EXPECT_EQ(list(unique(x, {.sorted = false}).values), (Doubles{1, 2, 3}));
}

// torch.unique(torch.tensor([nan, 1, nan, 2]), return_inverse=True, return_counts=True)
TEST(Unique, NansAreAllDifferent) {
  const Tensor x = make<float>({static_cast<float>(kNan), 1, static_cast<float>(kNan), 2});
  const UniqueValues all = unique(x, {.return_inverse = true, .return_counts = true});
  expect_near(all.values, {1, 2, kNan, kNan}, 0);
  EXPECT_EQ(list(all.inverse), (Doubles{2, 0, 3, 1}));
  EXPECT_EQ(list(all.counts), (Doubles{1, 1, 1, 1}));
}

// torch.unique(torch.tensor([[3, 1], [2, 9], [3, 1]]), dim=0, ...)
TEST(Unique, ComparesSlices) {
  const Tensor x = indices({3, 2}, {3, 1, 2, 9, 3, 1});
  const UniqueValues rows = unique(x, {.return_inverse = true, .return_counts = true, .dim = 0});
  EXPECT_EQ(rows.values.shape(), (Shape{2, 2}));
  EXPECT_EQ(list(rows.values), (Doubles{2, 9, 3, 1}));
  EXPECT_EQ(list(rows.inverse), (Doubles{1, 0, 1}));
  EXPECT_EQ(list(rows.counts), (Doubles{1, 2}));
  const UniqueValues columns = unique(transpose(x, 0, 1), {.return_counts = true, .dim = -1});
  EXPECT_EQ(columns.values.shape(), (Shape{2, 2}));
  EXPECT_EQ(list(columns.values), (Doubles{2, 3, 9, 1}));
  EXPECT_EQ(list(columns.counts), (Doubles{1, 2}));
}

TEST(Unique, OfRuns) {
  const Tensor x = indices({1, 1, 2, 2, 2, 1});
  const UniqueValues runs = unique_consecutive(x, {.return_inverse = true, .return_counts = true});
  EXPECT_EQ(list(runs.values), (Doubles{1, 2, 1}));
  EXPECT_EQ(list(runs.inverse), (Doubles{0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(list(runs.counts), (Doubles{2, 3, 1}));
  const UniqueValues rows = unique_consecutive(indices({3, 2}, {1, 1, 1, 1, 2, 1}),
                                               {.return_inverse = true, .return_counts = true, .dim = 0});
  EXPECT_EQ(list(rows.values), (Doubles{1, 1, 2, 1}));
  EXPECT_EQ(list(rows.inverse), (Doubles{0, 0, 1}));
  EXPECT_EQ(list(rows.counts), (Doubles{2, 1}));
}

TEST(Unique, OfFewElements) {
  const UniqueValues one = unique(number<std::int64_t>(3), {.return_inverse = true, .return_counts = true});
  EXPECT_EQ(list(one.values), Doubles{3});
  EXPECT_EQ(one.inverse.shape(), Shape{});
  EXPECT_EQ(list(one.counts), Doubles{1});
  const UniqueValues none =
      unique(zeros({0, 2, 3}), {.return_inverse = true, .return_counts = true, .dim = 0});
  EXPECT_EQ(none.values.shape(), (Shape{0, 2, 3}));
  EXPECT_EQ(none.inverse.shape(), (Shape{0}));
  EXPECT_EQ(none.counts.shape(), (Shape{0}));
  EXPECT_EQ(unique(zeros({0})).values.shape(), (Shape{0}));
  EXPECT_EQ(unique_consecutive(zeros({0})).values.shape(), (Shape{0}));
  EXPECT_FALSE(unique(leaf({2, 1})).values.requires_grad());
  EXPECT_THROW(static_cast<void>(unique(zeros({2}), {.dim = 1})), IndexError);
  EXPECT_THROW(static_cast<void>(unique(zeros({}), {.dim = 0})), IndexError);
  EXPECT_THROW(static_cast<void>(unique_consecutive(Tensor())), ValueError);
}

// torch.histc(x, 4, 0, 3), torch.histc(x[...], 3), ...
TEST(Histc, CountsAsPyTorch) {
  const Tensor x = make<double>({0.3, 1, 2.2, 2.2, 5, -1, kNan, 3});
  EXPECT_EQ(list(histc(x, 4, 0, 3)), (Doubles{1, 1, 2, 1}));
  EXPECT_EQ(list(histc(make<float>({0.3F, 1, 2.2F, 2.2F, 5, -1, 3}), 3)), (Doubles{2, 3, 2}));
  EXPECT_EQ(list(histc(make<float>({1, 1}), 4)), (Doubles{0, 0, 2, 0}));
  EXPECT_EQ(list(histc(make<float>({2, 3, 4, 7}), 2, 3, 3)), (Doubles{3, 1}));
  EXPECT_EQ(list(histc(zeros({0}), 4)), (Doubles{0, 0, 0, 0}));
  EXPECT_EQ(histc(zeros({2, 3})).shape(), (Shape{100}));
  for (const DType dtype : {DType::f16, DType::bf16})
    EXPECT_EQ(histc(zeros({2}, {.dtype = dtype})).dtype(), dtype);
}

TEST(Histc, Refusals) {
  const Tensor x = make<double>({1, kNan});
  EXPECT_THROW(static_cast<void>(histc(x, 4)), ValueError);
  EXPECT_THROW(static_cast<void>(histc(x, 4, 0, kInf)), ValueError);
  EXPECT_THROW(static_cast<void>(histc(x, 4, 3, 2)), ValueError);
  EXPECT_THROW(static_cast<void>(histc(x, 0, 0, 1)), ValueError);
  EXPECT_THROW(static_cast<void>(histc(indices({1}))), DTypeError);
  EXPECT_THROW(static_cast<void>(histc(Tensor())), ValueError);
}

}  // namespace
}  // namespace mezzo
