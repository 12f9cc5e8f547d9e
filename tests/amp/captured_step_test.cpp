// CapturedStep against the same step run eagerly: the same bits after every call, over overflows too. On a
// machine without a CUDA device both sides run eagerly, and only the contract of the calls is tested.
#include "mezzo/amp/captured_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/mezzo.h"

namespace mezzo::amp {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// A small net with all it needs, on the best device; equal ones for equal seeds.
struct Training {
  explicit Training(bool adam) {
    net.to(device);
    if (adam)
      optimizer = std::make_unique<optim::AdamW>(net.parameters(), optim::AdamWOptions{.lr = 0.01});
    else
      optimizer =
          std::make_unique<optim::SGD>(net.parameters(), optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    input = zeros({8, 6}, {.device = device});
    target = zeros({8, 3}, {.device = device});
  }

  Tensor step() {
    optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast autocast(device, DType::f16);
      loss = mse_loss(net.forward(input), target);
    }
    scaler.scale(loss).backward();
    scaler.unscale_(*optimizer);
    optim::clip_grad_norm_(net.parameters(), 1.0);
    static_cast<void>(scaler.step(*optimizer));
    scaler.update();
    return loss;
  }
  /// The data of call i; an infinity in call 6 overflows.
  void load(int i) const {
    Generator generator(static_cast<std::uint64_t>(i));
    Tensor x = randn({8, 6}, {}, generator);
    if (i == 6) select(select(x, 0, 2), 0, 1).fill_(kInf);
    input.copy_(x.to(device));
    target.copy_(randn({8, 3}, {}, generator).to(device));
  }
  [[nodiscard]] std::vector<double> state() const {
    std::vector<double> all{static_cast<double>(scaler.get_scale())};
    for (const Tensor& p : net.parameters()) {
      for (const double value : p.detach().to_vector<double>()) all.push_back(value);
    }
    return all;
  }

  /// Comes before `net`, which draws its weights when it is made.
  static Device seeded() {
    manual_seed(3);
    return Device::best();
  }
  Device device = seeded();
  nn::Sequential net{nn::make<nn::Linear>(6, 16), nn::make<nn::ReLU>(), nn::make<nn::Linear>(16, 3)};
  std::unique_ptr<optim::Optimizer> optimizer;
  GradScaler scaler{{.init_scale = 1024, .growth_interval = 3}};
  Tensor input, target;
};

void expect_same_bits(bool adam) {
  Training eager(adam), captured(adam);
  CapturedStep step(
      captured.device, [&] { return captured.step(); }, 3);
  for (int i = 0; i < 10; ++i) {
    eager.load(i);
    captured.load(i);
    const double want = eager.step().item<double>();
    const double got = step().item<double>();
    if (i == 6)
      EXPECT_FALSE(std::isfinite(want));
    else
      EXPECT_EQ(got, want) << "loss of call " << i;
    EXPECT_EQ(captured.state(), eager.state()) << "after call " << i;
    EXPECT_EQ(step.is_recorded(), captured.device.is_cuda() && i >= 3);
  }
}

TEST(CapturedStep, GivesTheBitsOfEagerSgdOverAnOverflow) { expect_same_bits(false); }
TEST(CapturedStep, GivesTheBitsOfEagerAdamWOverAnOverflow) { expect_same_bits(true); }

TEST(CapturedStep, WhatReadsBackIsRefusedAndNothingHasRun) {
  Training training(false);
  if (!training.device.is_cuda()) GTEST_SKIP() << "no CUDA device: nothing is recorded on the CPU";
  training.load(0);
  CapturedStep step(
      training.device,
      [&] {
        Tensor loss = training.step();
        static_cast<void>(loss.item<float>());
        return loss;
      },
      1);
  static_cast<void>(step());
  const std::vector<double> before = training.state();
  EXPECT_THROW(static_cast<void>(step()), StateError);
  EXPECT_EQ(training.state(), before);
  EXPECT_FALSE(step.is_recorded());
}

TEST(CapturedStep, BadArgumentsAreRefused) {
  EXPECT_THROW(CapturedStep(Device::cpu(), {}), ValueError);
  EXPECT_THROW(CapturedStep(
                   Device::cpu(), [] { return Tensor(); }, 0),
               ValueError);
  EXPECT_THROW(CapturedStep(Device::cuda(99), [] { return Tensor(); }), DeviceError);
}

}  // namespace
}  // namespace mezzo::amp
