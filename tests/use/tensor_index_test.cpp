// x[...]: what it reads and writes, with the gradients, against positions counted by hand.
#include <gtest/gtest.h>

#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

/// 0, 1, 2, ... as f32.
Tensor counted(const Shape& shape) {
  return reshape(arange(layout::checked_numel("test", shape)), shape).to(DType::f32);
}

TEST(TensorIndex, ReadsWhatPythonReads) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_TRUE(equal(x[1], counted({24})[Slice(12, None)].view({3, 4})));
  EXPECT_TRUE(equal(x[-1], x[1]));
  EXPECT_TRUE(equal(x[1][2], tensor({20.0, 21.0, 22.0, 23.0})));
  EXPECT_EQ((x[{1, 2, 3}].item()), 23);
  EXPECT_TRUE(equal(x[{0, Slice(1, 3)}], tensor({{4.0, 5, 6, 7}, {8.0, 9, 10, 11}})));
  EXPECT_TRUE(equal(x[{Slice(), Slice(None, None, 2), 0}], tensor({{0.0, 8}, {12.0, 20}})));
  EXPECT_TRUE(equal(x[{Ellipsis, -1}], tensor({{3.0, 7, 11}, {15.0, 19, 23}})));
  EXPECT_TRUE(equal(x[{1, Ellipsis, 0}], tensor({12.0, 16.0, 20.0})));
  EXPECT_EQ((x[{None, 0, Ellipsis, None}].shape()), (Shape{1, 3, 4, 1}));
  EXPECT_EQ(x[None].shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(x[Slice(0, 0)].shape(), (Shape{0, 3, 4}));
  EXPECT_EQ(x[Ellipsis].shape(), x.shape());
}

TEST(TensorIndex, ReadsByTensors) {
  const Tensor x = counted({3, 4});
  EXPECT_TRUE(equal(x[tensor({2, 0})], tensor({{8.0, 9, 10, 11}, {0.0, 1, 2, 3}})));
  EXPECT_TRUE(equal(x[{Slice(), tensor({-1, 1})}], tensor({{3.0, 1}, {7.0, 5}, {11.0, 9}})));
  EXPECT_TRUE(equal(x[{tensor({0, 1, 2}), tensor({3, 2, 1})}], tensor({3.0, 6.0, 9.0})));
  EXPECT_TRUE(equal(x[{1, tensor({0, 3})}], tensor({4.0, 7.0})));
  EXPECT_TRUE(equal(x[x > 8], tensor({9.0, 10.0, 11.0})));
  EXPECT_TRUE(equal(x[{tensor({true, false, true}), 1}], tensor({1.0, 9.0})));
  EXPECT_TRUE(equal(x.index({Slice(1, None), tensor({0})}), tensor({{4.0}, {8.0}})));
  const Tensor y = counted({2, 2, 3});
  EXPECT_TRUE(equal(y[tensor({{true, false}, {false, true}})], tensor({{0.0, 1, 2}, {9.0, 10, 11}})));
  EXPECT_TRUE(equal(y[{Ellipsis, tensor({2})}], y[{Slice(), Slice(), tensor({2})}]));
}

TEST(TensorIndex, ViewsShareMemory) {
  const Tensor x = counted({2, 3});
  const Tensor row = x[1];
  row.mul_(10);
  EXPECT_TRUE(equal(x, tensor({{0.0, 1, 2}, {30.0, 40, 50}})));
}

TEST(TensorIndex, Writes) {
  Tensor x = counted({3, 4});
  x[0] = 7;
  x[{1, Slice(1, 3)}] = tensor({-1.0, -2.0});
  x[{Slice(1, None), -1}] = 0.5;
  x[2] = x[1];
  EXPECT_TRUE(equal(x, tensor({{7.0, 7, 7, 7}, {4.0, -1, -2, 0.5}, {4.0, -1, -2, 0.5}})));
  x[x < 0] = 100;
  EXPECT_TRUE(equal(x[1], tensor({4.0, 100.0, 100.0, 0.5})));
  x[{tensor({0, 2}), tensor({0, 1})}] = tensor({1.0, 2.0});
  EXPECT_EQ((x[{0, 0}].item()), 1);
  EXPECT_EQ((x[{2, 1}].item()), 2);
  x.index_put_({0, Ellipsis}, 3).index_put_({Slice(), tensor({3})}, tensor({9.0}));
  EXPECT_TRUE(equal(x, tensor({{3.0, 3, 3, 9}, {4.0, 100, 100, 9}, {4.0, 2, 100, 9}})));
  Tensor whole = ones({2});
  whole[Ellipsis] = 4;
  EXPECT_TRUE(equal(whole, full({2}, 4)));
}

TEST(TensorIndex, WritesIntoAnyLayoutAndDType) {
  const Tensor x = zeros({3, 2}, DType::i64);
  transpose(x, 0, 1)[{1, tensor({0, 2})}] = tensor({5.9, 6.1});
  EXPECT_TRUE(equal(x, tensor({{0, 5}, {0, 0}, {0, 6}})));
  const Tensor h = ones({4}, DType::f16);
  h[Slice(1, 3)] = tensor({2.0, 3.0});
  EXPECT_TRUE(equal(h, tensor({1.0, 2.0, 3.0, 1.0})));
  EXPECT_EQ(h.dtype(), DType::f16);
  // What is read while it is overwritten.
  const Tensor s = counted({4});
  s[tensor({0, 1, 2, 3})] = s[Slice()].flip(0);
  EXPECT_TRUE(equal(s, tensor({3.0, 2.0, 1.0, 0.0})));
  s[tensor({3, 2, 1, 0})] = s;
  EXPECT_TRUE(equal(s, tensor({0.0, 1.0, 2.0, 3.0})));
}

TEST(TensorIndex, ComputesInPlace) {
  Tensor x = counted({2, 2});
  x[0] += 10;
  x[1] *= x[0];
  x[{1, 1}] -= 3;
  x[x == 10] /= 4;
  EXPECT_TRUE(equal(x, tensor({{2.5, 11}, {20.0, 30}})));
}

TEST(TensorIndex, ANamedItemIsATensor) {
  Tensor x = counted({2, 2});
  auto row = x[0];
  row = tensor({8.0, 9.0});
  EXPECT_TRUE(equal(x, counted({2, 2})));
  EXPECT_TRUE(equal(row, tensor({8.0, 9.0})));
  auto other = x[1];
  other += 1;
  EXPECT_TRUE(equal(x[1], tensor({3.0, 4.0})));
  auto picked = x[x > 2];
  picked += 100;
  EXPECT_TRUE(equal(x[1], tensor({3.0, 4.0})));
}

TEST(TensorIndex, GradientsOfReads) {
  const Tensor x = counted({3, 2});
  x.requires_grad_();
  (x[1] * 2).sum().backward();
  x[{Slice(), tensor({1, 1})}].sum().backward();
  EXPECT_TRUE(equal(x.grad(), tensor({{0.0, 2}, {2.0, 4}, {0.0, 2}})));
}

TEST(TensorIndex, GradientsOfWrites) {
  const Tensor leaf = counted({2, 3}).requires_grad_(), value = tensor({2.0, 4.0}).requires_grad_();
  Tensor x = leaf * 1;
  x[{0, Slice(1, None)}] = value * value;
  x[{tensor({1}), tensor({2})}] = 0;
  const Tensor weights = tensor({{1.0, 2, 3}, {4.0, 5, 6}});
  (x * weights).sum().backward();
  EXPECT_TRUE(equal(x, tensor({{0.0, 4, 16}, {3.0, 4, 0}})));
  EXPECT_TRUE(equal(leaf.grad(), tensor({{1.0, 0, 0}, {4.0, 5, 0}})));
  EXPECT_TRUE(equal(value.grad(), tensor({2 * 2.0 * 2, 2 * 4.0 * 3})));
}

TEST(TensorIndex, SecondGradientOfAWrite) {
  const Tensor v = tensor({3.0}).requires_grad_();
  Tensor x = v.expand({2}) * 1;
  x[1] = v[0] * v[0] * v[0];
  const Tensor first = grad((x * x).sum(), v, {.create_graph = true})[0];  // v^2 + v^6
  EXPECT_EQ(first.item(), 2 * 3 + 6 * 243.0);
  EXPECT_EQ(grad(first.sum(), v)[0].item(), 2 + 30 * 81.0);
}

TEST(TensorIndex, Refuses) {
  const Tensor x = counted({2, 3});
  EXPECT_THROW(static_cast<void>(x[2]), IndexError);
  EXPECT_THROW(static_cast<void>(x[{0, -4}]), IndexError);
  EXPECT_THROW(static_cast<void>(x[{0, 0, 0}]), IndexError);
  EXPECT_THROW(static_cast<void>(x[{Ellipsis, 0, Ellipsis}]), ValueError);
  EXPECT_THROW(static_cast<void>(x[Slice(0, 2, 0)]), ValueError);
  EXPECT_THROW(static_cast<void>(x[tensor({2})]), IndexError);
  EXPECT_THROW(static_cast<void>(x[tensor({true})]), IndexError);
  EXPECT_THROW(static_cast<void>(x[tensor({0.5})]), DTypeError);
  EXPECT_THROW(static_cast<void>(x[Index(Tensor())].shape()), Error);
  EXPECT_THROW(x[0] = ones({2}), ShapeError);
  EXPECT_THROW(x[tensor({0, 1})] = ones({4}), ShapeError);
  EXPECT_THROW(x[0] = Tensor(), ValueError);
  EXPECT_THROW(x.expand({2, 2, 3})[Slice()] = 1, ShapeError);
  EXPECT_THROW((x.expand({2, 2, 3})[{Slice(), tensor({0})}] = 1), ShapeError);
  EXPECT_THROW(static_cast<void>(Tensor()[0]), ValueError);
  EXPECT_THROW(Tensor().index_put_({0}, 1), ValueError);
  EXPECT_TRUE(equal(x, counted({2, 3})));
  const Tensor leaf = ones({2}).requires_grad_();
  EXPECT_THROW(leaf[0] = 1, AutogradError);
  const Tensor result = leaf * 1;
  EXPECT_THROW(result[Slice(0, 1)][0] = 1, AutogradError);
  {
    const NoGrad no_grad;
    leaf[0] = 5;
  }
  EXPECT_TRUE(equal(leaf.detach(), tensor({5.0, 1.0})));
}

TEST(TensorIndex, IteratesOverTheFirstDim) {
  const Tensor x = counted({3, 2});
  std::vector<double> sums;
  for (const Tensor& row : x) sums.push_back(row.sum().item());
  EXPECT_EQ(sums, (std::vector<double>{1, 5, 9}));
  for (const Tensor& row : zeros({0, 2})) FAIL() << row;
  EXPECT_THROW(static_cast<void>(ones({}).begin()), IndexError);
  EXPECT_THROW(static_cast<void>(Tensor().begin()), ValueError);
}

}  // namespace
}  // namespace mezzo
