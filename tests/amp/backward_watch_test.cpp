// Where a skipped step came from: the parameter with find_nonfinite, the op with BackwardWatch.
#include "mezzo/amp/backward_watch.h"

#include <gtest/gtest.h>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"

namespace mezzo::amp {
namespace {

TEST(FindNonfinite, NamesTheFirstParameterAndCountsItsBadElements) {
  const Tensor a = zeros({2, 2}, {.requires_grad = true}), b = zeros({3}, {.requires_grad = true});
  const Tensor c = zeros({2}, {.requires_grad = true}), d = zeros({2}, {.requires_grad = true});
  const optim::SGD optimizer(optim::NamedTensors{{"a", a}, {"b", b}, {"layer.c", c}, {"d", d}});
  EXPECT_FALSE(find_nonfinite(optimizer).has_value()) << "no gradients at all";
  a.set_grad(full({2, 2}, 3e38));
  c.set_grad(zeros({2}));
  EXPECT_FALSE(find_nonfinite(optimizer).has_value()) << "large is not infinite";
  c.set_grad(tensor({kInf, kNan}));
  d.set_grad(tensor({kInf, 0.0}));
  const std::optional<NonFinite> found = find_nonfinite(optimizer);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->index, 2U);
  EXPECT_EQ(found->parameter, "layer.c");
  EXPECT_EQ(found->count, 2);
}

TEST(FindNonfinite, DescribesUnnamedParametersAndFindsEveryDtype) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor p = zeros({3}, {.dtype = dtype, .requires_grad = true});
    const optim::SGD optimizer(std::vector<Tensor>{p});
    for (const double bad : {kInf, -kInf, kNan}) {
      p.set_grad(tensor({0.0, bad, 1.0}, {.dtype = dtype}));
      const std::optional<NonFinite> found = find_nonfinite(optimizer);
      ASSERT_TRUE(found.has_value()) << to_string(dtype) << " " << bad;
      EXPECT_EQ(found->parameter, "parameter 0 [3]");
      EXPECT_EQ(found->count, 1);
    }
  }
}

TEST(FindNonfinite, WorksAfterASkippedStep) {
  GradScaler scaler;
  OneParameter one;
  one.backward(scaler, kInf);
  ASSERT_TRUE(scaler.step(one.optimizer).skipped());
  scaler.update();
  EXPECT_TRUE(find_nonfinite(one.optimizer).has_value());
}

/// The op that BackwardWatch names for a loss.
std::string culprit(const Tensor& loss) {
  BackwardWatch watch;
  loss.backward();
  return watch.found() ? watch.found()->op : "none";
}

TEST(BackwardWatch, NamesTheOpWhoseGradientWasTheFirstToBreak) {
  const Tensor x = tensor({4.0, 0.0}, {.requires_grad = true});
  EXPECT_EQ(culprit(sum(exp(sqrt(x) * 2.0))), "sqrt") << "its derivative at 0 is infinite";
  EXPECT_EQ(culprit(sum(exp(x * 2.0))), "none");
  EXPECT_EQ(culprit(sum(x * 3e38 * 10.0)), "mul_scalar");
}

TEST(BackwardWatch, NamesTheOpThatOverflowsInTheCastToItsInputsDtype) {
  // mul gives 1e6 in f32, which is finite, to an input in f16, where it is not.
  const Tensor x = ones({2}, {.dtype = DType::f16, .requires_grad = true});
  EXPECT_EQ(culprit(sum(x * full({2}, 1e6))), "mul");
  EXPECT_EQ(culprit(sum(exp(x * 1.0) * full({2}, 1e6))), "mul") << "and not exp, which passes it on";
}

TEST(BackwardWatch, NamesTheSumThatTheDefaultScaleOverflows) {  // V-9
  const Tensor a = ones({2, 2}, {.requires_grad = true});
  GradScaler scaler;
  Tensor loss;
  {
    const Autocast region(Device::cpu(), DType::f16);
    loss = sum(matmul(a, a));
  }
  EXPECT_EQ(culprit(scaler.scale(loss)), "sum");
}

TEST(BackwardWatch, TellsWhichInputItWas) {
  const Tensor x = tensor({1.0}, {.requires_grad = true}), y = tensor({0.0}, {.requires_grad = true});
  BackwardWatch watch;
  sum(div(x, y)).backward();
  ASSERT_TRUE(watch.found().has_value());
  EXPECT_EQ(watch.found()->op, "div");
  EXPECT_EQ(watch.found()->input, 0U) << "1 / y";
  const Tensor z = tensor({0.0}, {.requires_grad = true});
  BackwardWatch second;
  sum(pow(full({1}, 2.0), sqrt(z))).backward();
  ASSERT_TRUE(second.found().has_value());
  EXPECT_EQ(second.found()->op, "sqrt");
}

TEST(BackwardWatch, KeepsTheFirstFindAndEndsWithItsScope) {
  const Tensor x = tensor({0.0}, {.requires_grad = true});
  BackwardWatch outer;
  {
    BackwardWatch inner;
    sum(sqrt(x)).backward();
    sum(log(x)).backward();
    ASSERT_TRUE(inner.found().has_value());
    EXPECT_EQ(inner.found()->op, "sqrt");
  }
  EXPECT_FALSE(outer.found().has_value()) << "the inner watch saw these";
  sum(log(x)).backward();
  ASSERT_TRUE(outer.found().has_value());
  EXPECT_EQ(outer.found()->op, "log");
}

TEST(BackwardWatch, ChangesNoGradient) {
  const Tensor x = tensor({0.5, 2.0}, {.requires_grad = true});
  sum(exp(x) * x).backward();
  const auto plain = bits(x.grad());
  x.set_grad({});
  const BackwardWatch watch;
  sum(exp(x) * x).backward();
  EXPECT_EQ(bits(x.grad()), plain);
}

}  // namespace
}  // namespace mezzo::amp
