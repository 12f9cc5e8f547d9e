// The engine: values, accumulation, retaining, higher derivatives, and what it refuses.
#include "mezzo/autograd/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo {
namespace {

using test::message_of;

Tensor leaf(std::vector<double> values) {
  return tensor(values, {.dtype = DType::f64, .requires_grad = true});
}
TEST(Engine, GradientOfAProductIsTheOtherFactor) {
  const Tensor a = leaf({2, 3}), b = leaf({5, 7});
  sum(a * b).backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{5, 7}));
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{2, 3}));
}

TEST(Engine, GradientsOfSeveralUsesAndSeveralBackwardsAddUp) {
  const Tensor x = leaf({3});
  for (int i = 0; i < 2; ++i) sum(x * x + x).backward();
  EXPECT_EQ(x.grad().item(), 2 * (2 * 3 + 1));
}

TEST(Engine, GradientsThatMeetBehindACastAreAddedBeforeTheyAreRounded) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = ones({3}).to(dtype).requires_grad_();
    const Tensor wide = x.to(DType::f32);
    // Neither is a 16-bit number; the first comes from a sum, which could round it.
    (sum(wide) * 1.0001F - sum(wide * 1.0001F)).backward();
    EXPECT_EQ(x.grad().to(DType::f64).to_vector<double>(), (std::vector<double>{0, 0, 0}));
  }
}

TEST(Engine, BroadcastInputsGetSummedGradients) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor s = tensor({2.0}, {.dtype = DType::f64, .requires_grad = true});
  sum(x * s).backward();
  EXPECT_EQ(s.grad().shape(), Shape{1});
  EXPECT_EQ(s.grad().item(), 6);
}

TEST(Engine, DerivativesOfEveryOrderFollow) {
  const Tensor x = leaf({0.7});
  Tensor y = sum(exp(x * 2.0));
  double factor = 1;
  for (int order = 1; order <= 4; ++order) {
    y = grad(y, {x}, {.create_graph = true})[0];
    y = sum(y);
    factor *= 2;
    EXPECT_NEAR(y.item(), factor * std::exp(1.4), 1e-12 * factor) << "order " << order;
  }
}

TEST(Engine, BackwardWithCreateGraphLeavesGradientsThatCanBeDifferentiated) {
  const Tensor x = leaf({3});
  sum(x * x * x).backward({.create_graph = true});
  const Tensor first = x.grad();
  EXPECT_EQ(first.item(), 27);
  x.set_grad({});
  sum(first).backward();
  EXPECT_EQ(x.grad().item(), 18);
}

TEST(Engine, GradReturnsGradientsOfIntermediateResultsAndTouchesNoLeaf) {
  const Tensor x = leaf({2});
  const Tensor h = x * x;
  const Tensor y = sum(h * h);
  const Tensors found = grad(y, {h, x});
  EXPECT_EQ(found[0].item(), 8);
  EXPECT_EQ(found[1].item(), 32);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Engine, GradOutputsWeighTheOutputs) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * x;
  const Tensor weight = tensor({10.0, 100.0}, {.dtype = DType::f64});
  const Tensors found = grad({&y, 1}, {&x, 1}, {&weight, 1});
  EXPECT_EQ(found[0].to_vector<double>(), (std::vector<double>{20, 400}));
}

TEST(Engine, SecondBackwardIsRefusedUnlessTheGraphIsRetained) {
  const Tensor x = leaf({3});
  const Tensor y = sum(x * x);
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_EQ(x.grad().item(), 12);
  const std::string text = message_of<Error>([&] { y.backward(); });
  EXPECT_NE(text.find("retain_graph = true"), std::string::npos) << text;
  EXPECT_EQ(x.grad().item(), 12) << "a refused backward must not touch a leaf";
}

TEST(Engine, UnusedInputsAreRefusedUnlessAllowed) {
  const Tensor x = leaf({3}), other = leaf({4});
  EXPECT_NE(message_of<Error>([&] { static_cast<void>(grad(sum(x * x), {other})); }).find("allow_unused"),
            std::string::npos);
  EXPECT_FALSE(grad(sum(x * x), {other}, {.allow_unused = true})[0].defined());
}

TEST(Engine, OutputsThatCannotBeDifferentiatedAreNamed) {
  const Tensor x = leaf({1, 2});
  EXPECT_NE(message_of<Error>([&] { (x * x).backward(); }).find("[2]"), std::string::npos);
  EXPECT_THROW(x.detach().backward(), AutogradError);
  EXPECT_THROW((x * x).backward(ones({3}), {}), ShapeError);
}

TEST(Engine, NothingIsRecordedUnderNoGradAndEnableGradBringsItBack) {
  const Tensor x = leaf({3});
  const NoGrad no_grad;
  EXPECT_FALSE((x * x).requires_grad());
  const EnableGrad enable;
  EXPECT_TRUE((x * x).requires_grad());
}

TEST(Engine, DetachSharesValuesButNotHistory) {
  const Tensor x = leaf({3});
  const Tensor y = (x * x).detach();
  EXPECT_FALSE(y.requires_grad());
  sum(x * y).backward();
  EXPECT_EQ(x.grad().item(), 9);
}

TEST(Engine, OverwrittenSavedTensorsAreNoticed) {
  const Tensor x = leaf({3});
  const Tensor h = x + 0.0;
  const Tensor y = sum(exp(h));
  const Tensor z = sum(h * h);
  {
    const NoGrad no_grad;
    h.fill_(1.0);
  }
  y.backward();  // exp needs its own result only
  const std::string text = message_of<Error>([&] { z.backward(); });
  EXPECT_NE(text.find("in place"), std::string::npos) << text;
  EXPECT_NE(text.find("mul"), std::string::npos) << text;
}

TEST(Engine, AChainOfAHundredThousandOpsNeitherRecursesForwardNorBack) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + 1.0;
  sum(y).backward();
  EXPECT_EQ(x.grad().item(), 1);
  EXPECT_EQ(y.item(), 100001);
}

TEST(Engine, ADiamondIsWalkedOncePerNode) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = y + y;  // 2^60 paths
  sum(y).backward();
  EXPECT_EQ(x.grad().item(), 0x1p60);
}

TEST(Engine, SharedGradientBuffersAreNotStolenByTwoLeaves) {
  const Tensor a = leaf({1}), b = leaf({1});
  sum(a + b).backward();
  a.grad().fill_(7.0);
  EXPECT_EQ(b.grad().item(), 1);
}

TEST(Engine, ALeafConvertedSinceForwardIsRefused) {
  const Tensor w = tensor({1.0}, {.requires_grad = true});
  const Tensor y = sum(w + 1.0);  // saves no value that a version could guard
  const Tensor half = w.detach().to(DType::f16);
  w.impl().storage = half.impl().storage;  // what Module::to does behind the handle
  w.impl().dtype = DType::f16;
  EXPECT_NE(message_of<Error>([&] { y.backward(); }).find("run forward again"), std::string::npos);
  EXPECT_FALSE(w.grad().defined());
}

TEST(Engine, IntegersCannotRequireGrad) {
  EXPECT_THROW(tensor({1, 2}).requires_grad_(), DTypeError);
  const Tensor x = leaf({1});
  EXPECT_THROW((x * x).requires_grad_(false), AutogradError);
}

}  // namespace
}  // namespace mezzo
