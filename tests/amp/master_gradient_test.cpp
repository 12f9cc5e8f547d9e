// The f32 gradients that unscale_ gives to 16-bit parameters with f32 masters: what they save, and that all
// that handles gradients handles them.
#include <cmath>

#include "amp/scaler_support.h"
#include "mezzo/amp/captured_step.h"
#include "mezzo/core/backend.h"
#include "mezzo/mezzo.h"

namespace mezzo::amp {
namespace {

constexpr double kScale = 0x1p20;

/// The master of an optimizer's first parameter.
std::vector<double> master_of(const optim::Optimizer& optimizer) {
  for (const auto& [key, tensor] : optimizer.state_dict().tensors) {
    if (key == "0.master") return tensor.to_vector<double>();
  }
  return {};
}

/// A 16-bit parameter with a master under SGD with lr 1, and a scale of 2^20.
class MasterGradient : public ::testing::TestWithParam<DType> {
 protected:
  /// scale() and a scaled gradient, as after backward.
  void set_gradient(const std::vector<double>& values) {
    static_cast<void>(scaler.scale(zeros({})));
    parameter.set_grad(tensor(values, {.dtype = GetParam()}));
  }
  /// A backward whose gradient is `factor` in every element.
  void backward(double factor) const { sum(parameter * factor).backward(); }

  Tensor parameter = zeros({2}, {.dtype = GetParam(), .requires_grad = true});
  optim::SGD optimizer{std::vector<Tensor>{parameter}, {.lr = 1, .master_weights = true}};
  GradScaler scaler{{.init_scale = kScale}};
};

TEST_P(MasterGradient, KeepsWhat16BitsWouldLose) {
  // 2^-30 is none of f16's numbers, 3 * 2^-20 has more digits than a bf16 of 1 + it would keep.
  set_gradient({0x1p-10, 3});
  const Tensor scaled = parameter.grad();
  scaler.unscale_(optimizer);
  EXPECT_EQ(parameter.grad().dtype(), DType::f32);
  EXPECT_EQ(parameter.grad().to_vector<double>(), (std::vector<double>{0x1p-30, 3 * 0x1p-20}));
  EXPECT_EQ(scaled.to_vector<double>(), (std::vector<double>{0x1p-10, 3})) << "the 16-bit one is left alone";
  EXPECT_FALSE(scaler.step(optimizer).skipped());
  EXPECT_EQ(master_of(optimizer), (std::vector<double>{-0x1p-30, -3 * 0x1p-20}));
}

TEST_P(MasterGradient, IsTheSameStepAsWithoutUnscale) {
  const Tensor other = zeros({2}, {.dtype = GetParam(), .requires_grad = true});
  optim::SGD without(std::vector<Tensor>{other}, {.lr = 1, .master_weights = true});
  for (const double value : {1.0, 0x1p-9, 5.0}) {
    set_gradient({value, -3 * value});
    other.set_grad(parameter.grad().clone());
    scaler.unscale_(optimizer);
    scaler.step(optimizer);
    scaler.step(without);
    scaler.update();
    EXPECT_EQ(master_of(optimizer), master_of(without));
    EXPECT_EQ(bits(parameter), bits(other));
  }
}

TEST_P(MasterGradient, CanBeClippedBeforeTheStep) {
  set_gradient({3 * 0x1p-8, 4 * 0x1p-8});
  scaler.unscale_(optimizer);
  const double norm = 5 * 0x1p-28;
  EXPECT_EQ(optim::clip_grad_norm_(optimizer.parameters(), 1).item(), norm);
  EXPECT_EQ(parameter.grad().to_vector<double>(), (std::vector<double>{3 * 0x1p-28, 4 * 0x1p-28}));
  optim::clip_grad_value_(optimizer.parameters(), 0x1p-27);
  EXPECT_EQ(parameter.grad().to_vector<double>(), (std::vector<double>{0x1p-27, 0x1p-27}));
  scaler.step(optimizer);
  EXPECT_EQ(master_of(optimizer), (std::vector<double>{-0x1p-27, -0x1p-27}));
}

TEST_P(MasterGradient, OfASkippedStepStaysAsItIs) {
  set_gradient({kInf, 0x1p10});
  scaler.unscale_(optimizer);
  EXPECT_TRUE(scaler.step(optimizer).skipped());
  EXPECT_EQ(parameter.grad().to_vector<double>(), (std::vector<double>{kInf, 0x1p-10}));
  EXPECT_EQ(master_of(optimizer), (std::vector<double>{0, 0}));
  const std::optional<NonFinite> found = find_nonfinite(optimizer);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->count, 1);
}

TEST_P(MasterGradient, IsWhatLaterBackwardsAddToUntilZeroGrad) {
  set_gradient({0x1p-10, 3});
  scaler.unscale_(optimizer);
  backward(0x1p-14);
  EXPECT_EQ(parameter.grad().dtype(), DType::f32);
  EXPECT_EQ(parameter.grad().to_vector<double>(),
            (std::vector<double>{0x1p-30 + 0x1p-14, 3 * 0x1p-20 + 0x1p-14}));
  optimizer.zero_grad(false);
  EXPECT_EQ(parameter.grad().dtype(), DType::f32) << "zeros where they are";
  backward(2);
  EXPECT_EQ(parameter.grad().to_vector<double>(), (std::vector<double>{2, 2}));
  scaler.update();
  static_cast<void>(scaler.scale(zeros({})));
  const Tensor kept = parameter.grad();
  scaler.unscale_(optimizer);
  EXPECT_TRUE(parameter.grad().is_same(kept)) << "in place, as it is f32 already";
  EXPECT_EQ(kept.to_vector<double>(), (std::vector<double>{2 / kScale, 2 / kScale}));
  optimizer.zero_grad();
  EXPECT_FALSE(parameter.grad().defined());
  backward(1);
  EXPECT_EQ(parameter.grad().dtype(), GetParam());
}

TEST_P(MasterGradient, HasTheLayoutOfADenseGradientAndTakesHistoryAway) {
  const Tensor weight = zeros({2, 3}, {.dtype = GetParam(), .requires_grad = true});
  optim::SGD sgd(std::vector<Tensor>{weight}, {.lr = 1, .master_weights = true});
  static_cast<void>(scaler.scale(zeros({})));
  sum(weight * weight + weight * kScale / 32.0).backward({.create_graph = true});
  ASSERT_TRUE(weight.grad().requires_grad());
  scaler.unscale_(sgd);
  EXPECT_FALSE(weight.grad().requires_grad());
  EXPECT_EQ(weight.grad().to_vector<double>(), std::vector<double>(6, 1.0 / 32));
}

TEST_P(MasterGradient, FollowsItsModelIntoAnotherDtype) {
  for (const DType target : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    nn::Linear layer(2, 2);
    layer.to(GetParam());
    optim::SGD sgd(layer.parameters(), {.lr = 1, .master_weights = true});
    GradScaler own({.init_scale = 4});
    own.scale(sum(layer.forward(ones({1, 2}, {.dtype = GetParam()})))).backward();
    own.unscale_(sgd);
    layer.to(target);
    for (const Tensor& p : layer.parameters()) {
      EXPECT_EQ(p.grad().dtype(), target == GetParam() ? DType::f32 : target);
      EXPECT_EQ(p.grad().to_vector<double>(), std::vector<double>(static_cast<std::size_t>(p.numel()), 1.0));
    }
    EXPECT_FALSE(own.step(sgd).skipped());
    EXPECT_FALSE(nn::clone(layer)->parameters()[0].grad().defined()) << "clones start without gradients";
  }
}

TEST_P(MasterGradient, OfARemappedParameterIsNotItsSuccessors) {
  set_gradient({1, 1});
  scaler.unscale_(optimizer);
  const Tensor successor = ones({2}, {.dtype = GetParam(), .requires_grad = true});
  static_cast<void>(optim::remap(optimizer, {{parameter, successor}}));
  EXPECT_FALSE(scaler.step(optimizer).skipped());
  EXPECT_EQ(successor.to_vector<double>(), (std::vector<double>{1, 1}));
}

INSTANTIATE_TEST_SUITE_P(All, MasterGradient, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST(MasterGradients, AreForMastersOnly) {
  // bf16 without a master stays as it is; f16 without one is refused, and nothing has changed.
  const Tensor bf16 = zeros({1}, {.dtype = DType::bf16, .requires_grad = true});
  const Tensor f16 = zeros({1}, {.dtype = DType::f16, .requires_grad = true});
  optim::SGD without(std::vector<Tensor>{bf16}), refused(std::vector<Tensor>{bf16, f16});
  GradScaler scaler({.init_scale = 4});
  static_cast<void>(scaler.scale(zeros({})));
  bf16.set_grad(tensor({8.0}, {.dtype = DType::bf16}));
  f16.set_grad(tensor({8.0}, {.dtype = DType::f16}));
  EXPECT_THROW(scaler.unscale_(refused), DTypeError);
  EXPECT_EQ(bf16.grad().item(), 8);
  EXPECT_EQ(f16.grad().item(), 8);
  const Tensor gradient = bf16.grad();
  scaler.unscale_(without);
  EXPECT_TRUE(bf16.grad().is_same(gradient));
  EXPECT_EQ(gradient.item(), 2);
  f16.set_grad(tensor({8.0F}));
  EXPECT_NO_THROW(scaler.unscale_(refused)) << "an f32 gradient needs no master";
}

TEST(MasterGradients, AreMadeAgainByEveryReplayOfACapturedStep) {
  const Device device = Device::best();
  const auto run = [&](bool captured) {
    const Tensor weight = ones({3, 2}, {.dtype = DType::f16, .device = device, .requires_grad = true});
    const Tensor input = zeros({4, 2}, {.dtype = DType::f16, .device = device});
    optim::AdamW optimizer(std::vector<Tensor>{weight}, {.lr = 0.01, .master_weights = true});
    GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
    const auto body = [&] {
      optimizer.zero_grad();
      const Tensor loss = mean(linear(input, weight).to(DType::f32));
      scaler.scale(loss).backward();
      scaler.unscale_(optimizer);
      optim::clip_grad_norm_(optimizer.parameters(), 0.01);
      scaler.step(optimizer);
      scaler.update();
      return loss;
    };
    CapturedStep step(device, body, 2);
    std::vector<std::uint64_t> seen;
    for (int i = 0; i < 8; ++i) {
      input.copy_(full({4, 2}, i == 5 ? kInf : 0.25 * i, {.dtype = DType::f16, .device = device}));
      static_cast<void>(captured ? step() : body());
      for (const std::uint64_t bit : bits(weight.detach())) seen.push_back(bit);
    }
    EXPECT_EQ(scaler.steps_skipped(), 1);
    return seen;
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace
}  // namespace mezzo::amp
