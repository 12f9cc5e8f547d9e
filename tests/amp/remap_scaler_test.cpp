// A loss scaler and the 16-bit copies of autocast go on being right when an optimizer's parameters are
// exchanged.
#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/optim/remap.h"

namespace mezzo::amp {
namespace {

class RemapUnderAScaler : public ::testing::Test {
 protected:
  Tensor p = tensor({1.0, 2.0}, {.requires_grad = true}), q = tensor({3.0, 4.0}, {.requires_grad = true});
  Tensor p2 = tensor({5.0, 6.0}, {.requires_grad = true});
  optim::SGD optimizer{std::vector<Tensor>{p, q}, {.lr = 1}};
  GradScaler scaler{{.init_scale = 4}};

  /// Gradients of 1, or of infinity, as after a scaled backward.
  void backward(const std::vector<Tensor>& parameters, double gradient = 1) {
    static_cast<void>(scaler.scale(zeros({})));
    for (const Tensor& parameter : parameters) parameter.set_grad(tensor({4 * gradient, 4.0}));
  }
};

TEST_F(RemapUnderAScaler, BetweenUnscaleAndStep) {
  backward({p, q});
  scaler.unscale_(optimizer);
  static_cast<void>(optim::remap(optimizer, {{p, p2}}));
  EXPECT_FALSE(scaler.step(optimizer).skipped());
  scaler.update();
  EXPECT_EQ(bits(q), bits(tensor({2.0, 3.0})));
  EXPECT_EQ(bits(p2), bits(tensor({5.0, 6.0}))) << "it has no gradient yet";
  EXPECT_EQ(bits(p), bits(tensor({1.0, 2.0})));
}

TEST_F(RemapUnderAScaler, OnlyPresentParametersDecideAboutAStep) {
  static_cast<void>(optim::remap(optimizer, {{p, p2}}));
  backward({p, p2, q});
  p.grad().fill_(kInf);
  EXPECT_FALSE(scaler.step(optimizer).skipped()) << "p has gone";
  scaler.update();
  EXPECT_EQ(bits(p2), bits(tensor({4.0, 5.0})));
  backward({p2, q}, kInf);
  EXPECT_TRUE(scaler.step(optimizer).skipped());
  scaler.update();
  EXPECT_EQ(bits(p2), bits(tensor({4.0, 5.0})));
  EXPECT_EQ(scaler.get_scale(), 2);
}

TEST_F(RemapUnderAScaler, CopiesOfASuccessorAreKeptFreshAndThoseOfTheFormerOneNeverStale) {
  const auto product = [](const Tensor& weight) {
    const Autocast region(Device::cpu(), DType::f16);
    return sum(linear(weight, ones({1, 2})));
  };
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> parameters = optimizer.parameters();
    const Tensor loss = product(parameters[0]) + product(parameters[1]);
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
    if (i == 0) static_cast<void>(optim::remap(optimizer, {{p, p2}}));
  }
  {
    const NoGrad no_grad;
    p.fill_(8);
  }
  EXPECT_EQ(product(p).item(), 16);
  EXPECT_EQ(product(p2).item(), 9);
  EXPECT_EQ(product(q).item(), 3);
}

}  // namespace
}  // namespace mezzo::amp
