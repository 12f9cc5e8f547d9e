// InferenceMode: what is recorded, which tensors are inference tensors, and what may be done with them.
#include <gtest/gtest.h>

#include <thread>

#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo {
namespace {

using test::message_of;

TEST(InferenceMode, RecordsNothing) {
  const Tensor w = ones({3}).requires_grad_();
  const InferenceMode inference;
  EXPECT_TRUE(inference_mode_enabled());
  EXPECT_FALSE(grad_enabled());
  const EnableGrad enable_grad;  // as in torch, it does not undo the mode
  EXPECT_FALSE(grad_enabled());
  EXPECT_FALSE((w * 2).requires_grad());
  EXPECT_TRUE((w * 2).is_leaf());
}

TEST(InferenceMode, EndsWithItsScopeAndNests) {
  EXPECT_FALSE(inference_mode_enabled());
  {
    const InferenceMode outer;
    {
      const InferenceMode off(false);
      EXPECT_FALSE(inference_mode_enabled());
      EXPECT_TRUE(grad_enabled());
      EXPECT_FALSE(ones({2}).is_inference());
    }
    EXPECT_TRUE(inference_mode_enabled());
    std::thread([] { EXPECT_FALSE(inference_mode_enabled()); }).join();
  }
  EXPECT_FALSE(inference_mode_enabled());
  EXPECT_TRUE(grad_enabled());
}

TEST(InferenceMode, MarksWhatIsMadeInIt) {
  const Tensor normal = ones({2, 3});
  Tensor made, view_of_normal, view_of_made;
  {
    const InferenceMode inference;
    made = normal + 1;
    view_of_normal = normal.view({3, 2});
    view_of_made = made.view({6});
  }
  EXPECT_FALSE(normal.is_inference());
  EXPECT_TRUE(made.is_inference());
  EXPECT_FALSE(view_of_normal.is_inference());
  EXPECT_TRUE(view_of_made.is_inference());
  EXPECT_FALSE(made.clone().is_inference());
  EXPECT_FALSE((made + 1).is_inference());
  EXPECT_THROW(static_cast<void>(Tensor().is_inference()), ValueError);
}

TEST(InferenceMode, DoesNotCountWrites) {
  Tensor x;
  {
    const InferenceMode inference;
    x = zeros({2});
    x.add_(1);
    x.mul_(3);
  }
  EXPECT_EQ(x.version(), 0U);
  EXPECT_TRUE(equal(x, tensor({3.0, 3.0})));
  const Tensor normal = zeros({2});
  {
    const InferenceMode inference;
    normal.add_(1);
  }
  EXPECT_EQ(normal.version(), 1U);
}

TEST(InferenceMode, ItsTensorsAreRefusedWhereBackwardWouldNeedThem) {
  const Tensor w = ones({2}).requires_grad_();
  Tensor x;
  {
    const InferenceMode inference;
    x = tensor({2.0, 3.0});
  }
  EXPECT_EQ(
      message_of<AutogradError>([&] { static_cast<void>(w * x); }),
      "mul: expected a normal tensor as input 1, which backward needs, got an inference tensor of shape [2]; "
      "make it outside of InferenceMode, or clone() it there");
  (w + x).sum().backward();  // add saves nothing
  EXPECT_TRUE(equal(w.grad(), ones({2})));
  (w * x.clone()).sum().backward();
  EXPECT_TRUE(equal(w.grad(), tensor({3.0, 4.0})));
  EXPECT_EQ(
      message_of<AutogradError>([&] { x.mul_(w); }),
      "mul_: expected no recorded write into an inference tensor, got one of shape [2]; clone() it outside "
      "of InferenceMode");
  EXPECT_EQ(
      message_of<AutogradError>([&] { x.requires_grad_(); }),
      "requires_grad_: expected a normal tensor, got an inference tensor; make it outside of InferenceMode, "
      "or clone() it there");
  EXPECT_NO_THROW(x.requires_grad_(false));
}

TEST(InferenceMode, AModelMadeInItCannotBeTrained) {
  std::shared_ptr<nn::Linear> layer;
  {
    const InferenceMode inference;
    layer = nn::make<nn::Linear>(2, 2);
    EXPECT_TRUE((*layer)(ones({1, 2})).is_inference());
  }
  EXPECT_THROW(optim::SGD(*layer, {.lr = 0.1}), AutogradError);
}

TEST(InferenceMode, EndsForABackward) {
  const Tensor x = tensor({3.0}).requires_grad_();
  const Tensor y = square(x);
  {
    const InferenceMode inference;
    y.backward();
  }
  EXPECT_FALSE(x.grad().is_inference());
  EXPECT_TRUE(equal(x.grad(), tensor({6.0})));
}

TEST(InferenceMode, LeavesNoCopiesOfWeightsThatATrainingCouldNotUse) {
  nn::Linear layer(3, 2);
  const Tensor x = randn({4, 3});
  const amp::Autocast autocast(DType::bf16);
  Tensor evaluated;
  {
    const InferenceMode inference;
    evaluated = layer(x);  // casts the weight, and the copy is kept for the region
  }
  const Tensor y = layer(x);
  EXPECT_TRUE(equal(y, evaluated));
  sum(y).backward();
  EXPECT_TRUE(layer.weight.grad().defined());
}

TEST(InferenceMode, AgreesWithNoGrad) {
  nn::Sequential net(nn::Linear(4, 8), nn::BatchNorm1d(8), nn::GELU(), nn::Linear(8, 2));
  net.eval();
  const Tensor x = randn({5, 4});
  Tensor plain, inferred;
  {
    const NoGrad no_grad;
    plain = net(x);
  }
  {
    const InferenceMode inference;
    inferred = net(x);
  }
  EXPECT_TRUE(equal(plain, inferred));
}

}  // namespace
}  // namespace mezzo
