// Gradient hooks on leaves and on intermediate results.
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

Tensor leaf(double value) { return tensor({value}, {.dtype = DType::f64, .requires_grad = true}); }

TEST(Hook, SeesTheCompleteGradientOnce) {
  const Tensor x = leaf(3);
  int calls = 0;
  double seen = 0;
  x.register_hook([&](const Tensor& g) {
    ++calls;
    seen = g.item();
    return Tensor();
  });
  sum(x * x + x).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(seen, 7);
}

TEST(Hook, MayReplaceTheGradientOfAnIntermediateResult) {
  const Tensor x = leaf(3);
  const Tensor h = x * 2.0;
  h.register_hook([](const Tensor& g) { return g * 10.0; });
  sum(h * h).backward();
  EXPECT_EQ(x.grad().item(), 2 * 6 * 10 * 2);
}

TEST(Hook, IsGoneAfterRemoval) {
  const Tensor x = leaf(3);
  const std::size_t id = x.register_hook([](const Tensor& g) { return g * 0.0; });
  x.remove_hook(id);
  sum(x * 5.0).backward();
  EXPECT_EQ(x.grad().item(), 5);
}

TEST(Hook, OfAnotherShapeIsRefusedAndNoLeafIsTouched) {
  const Tensor x = leaf(3);
  x.register_hook([](const Tensor&) { return zeros({2}, {.dtype = DType::f64}); });
  EXPECT_THROW(sum(x * x).backward(), ShapeError);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Hook, OfAnotherDTypeIsRefusedAndNoLeafIsTouched) {
  const Tensor x = leaf(3);
  x.register_hook([](const Tensor& gradient) { return gradient.to(DType::f32); });
  EXPECT_THROW(sum(x * x).backward(), DTypeError);
  EXPECT_FALSE(x.grad().defined());
  const Tensor y = leaf(3);
  const Tensor between = y * 2.0;
  between.register_hook([](const Tensor& gradient) { return gradient.to(DType::bf16); });
  EXPECT_THROW(sum(between).backward(), DTypeError);
  EXPECT_FALSE(y.grad().defined());
}

TEST(Hook, NeedsATensorThatRequiresGrad) {
  EXPECT_THROW(tensor({1.0}).register_hook([](const Tensor& g) { return g; }), AutogradError);
}

}  // namespace
}  // namespace mezzo
