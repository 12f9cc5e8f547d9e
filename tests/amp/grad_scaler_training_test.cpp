// GradScaler in whole training loops: skipped steps, several optimizers, clipping, resuming. (Accumulation
// and gradient penalties have files of their own.) Letters and numbers name the statements of PyTorch's
// behaviour that a test pins.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/clip.h"

namespace mezzo::amp {
namespace {

const Device kCpu = Device::cpu();

Tensor loss_of(const Mlp& net, const Batch& batch) {
  return mse_loss(net.forward(batch.input), batch.target);
}

/// Makes the first gradient infinite, as an overflow in backward would.
void spoil(const Mlp& net) {
  const NoGrad no_grad;
  const Tensor gradient = net.parameters[0].grad();
  select(select(gradient, 0, 0), 0, 0).fill_(kInf);
}

/// V-7's loop: four iterations, the gradients of those in `bad` overflow. The final parameters.
std::vector<std::vector<std::uint64_t>> scaled_run(GradScaler& scaler, const std::set<int>& bad,
                                                   bool unscale_first = false) {
  const Mlp net;
  optim::SGD optimizer(net.parameters, {.lr = 0.1, .momentum = 0.9});
  for (int i = 0; i < 4; ++i) {
    scaler.scale(loss_of(net, Batch(static_cast<std::uint64_t>(i)))).backward();
    if (bad.contains(i)) spoil(net);
    if (unscale_first) scaler.unscale_(optimizer);
    EXPECT_EQ(scaler.step(optimizer).skipped(), bad.contains(i));
    scaler.update();
    optimizer.zero_grad();
  }
  return bits(net.parameters);
}

/// The same without a scaler, leaving the bad iterations out.
std::vector<std::vector<std::uint64_t>> plain_run(const std::set<int>& bad) {
  const Mlp net;
  optim::SGD optimizer(net.parameters, {.lr = 0.1, .momentum = 0.9});
  for (int i = 0; i < 4; ++i) {
    if (bad.contains(i)) continue;
    loss_of(net, Batch(static_cast<std::uint64_t>(i))).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return bits(net.parameters);
}

TEST(GradScalerTraining, IsBitEqualToTheRunThatLeavesTheSkippedStepsOut) {  // V-7
  // Exact, because the scale is a power of two and f32 has room for it.
  for (int bad = 0; bad < 4; ++bad) {
    for (const bool unscale_first : {false, true}) {
      GradScaler scaler({.init_scale = 128, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 1});
      EXPECT_EQ(scaled_run(scaler, {bad}, unscale_first), plain_run({bad})) << bad;
      EXPECT_EQ(scaler.get_scale(), 128 * 2 * 2 * 2 * 0.5);
      EXPECT_EQ(scaler.steps_ok(), 3);
      EXPECT_EQ(scaler.steps_skipped(), 1);
    }
  }
  GradScaler scaler({.init_scale = 128});
  EXPECT_EQ(scaled_run(scaler, {}), plain_run({}));
  EXPECT_NE(plain_run({}), plain_run({2})) << "the comparison would notice a step";
}

TEST(GradScalerTraining, AccumulationUpdatesAtItsEndOnly) {  // V-7, G-70
  const auto run = [](int bad) {
    const Mlp net;
    optim::SGD optimizer(net.parameters, {.lr = 0.1});
    GradScaler scaler({.init_scale = 128, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 1});
    for (int i = 0; i < 4; ++i) {
      scaler.scale(loss_of(net, Batch(static_cast<std::uint64_t>(i))) / 2).backward();
      if (i == bad) spoil(net);
      if (i % 2 == 0) continue;
      EXPECT_EQ(scaler.step(optimizer).skipped(), bad >= 0 && bad / 2 == i / 2);
      scaler.update();
      optimizer.zero_grad();
    }
    return scaler.get_scale();
  };
  EXPECT_EQ(run(-1), 128 * 2 * 2) << "two updates";
  for (int bad = 0; bad < 4; ++bad) EXPECT_EQ(run(bad), 128 * 2 * 0.5) << bad;
}

TEST(GradScalerTraining, TwoOptimizersShareOneScaleAndSkipOnTheirOwn) {  // V-7, G-59, G-73
  constexpr int kBad = 2;
  const auto run = [](bool scaled) {
    const Mlp first(DType::f32, 1), second(DType::f32, 2);
    optim::SGD of_first(first.parameters, {.lr = 0.1, .momentum = 0.9});
    optim::Adam of_second(second.parameters, {.lr = 0.01});
    GradScaler scaler({.init_scale = 128, .growth_factor = 2, .growth_interval = 1, .enabled = scaled});
    for (int i = 0; i < 4; ++i) {
      const Batch batch(static_cast<std::uint64_t>(i));
      const Tensor of_one = loss_of(first, batch), of_other = loss_of(second, batch);
      const std::vector<Tensor> losses{of_one + of_other, of_one * 0.6 + of_other * 0.4};  // one graph
      const std::vector<Tensor> scaled_losses = scaler.scale(losses);
      scaled_losses[0].backward({.retain_graph = true});
      scaled_losses[1].backward();
      if (scaled && i == kBad) spoil(first);
      if (scaled || i != kBad) {
        EXPECT_EQ(scaler.step(of_first).skipped(), i == kBad);
      }
      EXPECT_FALSE(scaler.step(of_second).skipped());
      scaler.update();
      of_first.zero_grad();
      of_second.zero_grad();
    }
    if (scaled) {
      EXPECT_EQ(scaler.get_scale(), 128 * 2 * 2 * 2 * 0.5);
    }
    return std::pair(bits(first.parameters), bits(second.parameters));
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(GradScalerTraining, TheDefaultScaleOverflowsInASumOfHalfProducts) {  // V-9, G-13
  const Tensor a = ones({8, 8}, {.requires_grad = true}), b = ones({8, 8}, {.requires_grad = true});
  optim::SGD optimizer(std::vector<Tensor>{a, b}, {.lr = 1});
  GradScaler scaler;
  std::vector<bool> skipped;
  for (int i = 0; i < 2; ++i) {
    Tensor loss;
    {
      const Autocast region(kCpu, DType::f16);
      loss = sum(matmul(a, b));
    }
    scaler.scale(loss).backward();
    skipped.push_back(scaler.step(optimizer).skipped());
    scaler.update();
    optimizer.zero_grad();
  }
  EXPECT_EQ(skipped[0], true) << "65536 is no f16";
  EXPECT_EQ(scaler.steps_skipped(), skipped[1] ? 2 : 1);
  EXPECT_EQ(scaler.get_scale(), skipped[1] ? 16384 : 32768);
  EXPECT_FALSE(skipped[1]) << "32768 is";
}

TEST(GradScalerTraining, GradientsWrittenAfterUnscaleAreNotCheckedAgain) {  // G-36
  OneParameter one;
  GradScaler scaler;
  one.backward(scaler);
  scaler.unscale_(one.optimizer);
  one.parameter.grad().fill_(kNan);
  EXPECT_FALSE(scaler.step(one.optimizer).skipped());
  EXPECT_TRUE(std::isnan(one.parameter.to_vector<double>()[0]));
}

TEST(GradScalerTraining, ClippingUnscaledGradientsOrScaledOnesWithAScaledBoundIsTheSame) {  // G-71
  enum class Way { unscaled, scaled, none };
  const auto run = [](Way way, double max_norm) {
    const Mlp net(DType::f64);
    optim::SGD optimizer(net.parameters, {.lr = 1});
    GradScaler scaler({.init_scale = 1024});
    scaler.scale(loss_of(net, Batch(0, 5, DType::f64))).backward();
    double norm = 0;
    if (way == Way::unscaled) {
      scaler.unscale_(optimizer);
      norm = optim::clip_grad_norm_(net.parameters, max_norm).item();
    } else if (way == Way::scaled) {
      norm = optim::clip_grad_norm_(net.parameters, max_norm * scaler.get_scale()).item() / 1024;
    }
    scaler.step(optimizer);
    double square = 0;  // of the step that was made
    const Mlp start(DType::f64);
    for (std::size_t p = 0; p < net.parameters.size(); ++p)
      square += mezzo::norm(net.parameters[p].detach() - start.parameters[p].detach()).item() *
                mezzo::norm(net.parameters[p].detach() - start.parameters[p].detach()).item();
    return std::pair(norm, std::sqrt(square));
  };
  const double whole = run(Way::none, 0).second;
  const double bound = whole / 4;
  const auto unscaled = run(Way::unscaled, bound), scaled = run(Way::scaled, bound);
  EXPECT_NEAR(unscaled.first, whole, 1e-12 * whole) << "the norm before clipping is returned";
  EXPECT_NEAR(scaled.first, whole, 1e-12 * whole);
  EXPECT_NEAR(unscaled.second, bound * whole / (whole + 1e-6), 1e-12);
  EXPECT_NEAR(scaled.second, bound * whole / (whole + 1e-6 / 1024), 1e-12);
  EXPECT_NEAR(run(Way::unscaled, 2 * whole).second, whole, 1e-12 * whole) << "a bound that is not reached";
}

TEST(GradScalerTraining, Bf16GradientsAreAccepted) {  // instead of G-28, G-75
  const Tensor p = ones({2}, {.dtype = DType::bf16, .requires_grad = true});
  optim::SGD optimizer(std::vector<Tensor>{p}, {.lr = 1});
  GradScaler scaler({.init_scale = 8});
  scaler.scale(sum(p * tensor({2.0, 0.5}, {.dtype = DType::bf16}))).backward();
  EXPECT_FALSE(scaler.step(optimizer).skipped());
  EXPECT_EQ(p.to_vector<double>(), (std::vector<double>{-1, 0.5}));
}

/// Model, optimizer and scaler of one run, and what a checkpoint of them holds.
struct Training {
  Mlp net;
  optim::Adam optimizer{net.parameters, {.lr = 0.01, .weight_decay = 0.1}};
  GradScaler scaler{{.init_scale = 64, .growth_interval = 3}};

  void iterate(std::uint64_t i) {
    Tensor loss;
    {
      const Autocast region(kCpu, DType::f16);
      loss = loss_of(net, Batch(i));
    }
    scaler.scale(loss).backward();
    if (i % 4 == 2) spoil(net);
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
  }
  /// Copies everything that matters from another run, by way of state dicts.
  void resume(const Training& other) {
    const NoGrad no_grad;
    for (std::size_t p = 0; p < net.parameters.size(); ++p) net.parameters[p].copy_(other.net.parameters[p]);
    optimizer.load_state_dict(other.optimizer.state_dict());
    scaler.load_state_dict(other.scaler.state_dict());
  }
};

TEST(GradScalerTraining, AClosureGivesTheBitsOfTheLoopByHand) {
  Training by_hand, by_closure;
  for (std::uint64_t i = 0; i < 8; ++i) {
    by_hand.iterate(i);
    const StepResult step = by_closure.scaler.step(by_closure.optimizer, [&] {
      by_closure.optimizer.zero_grad();
      const Autocast region(kCpu, DType::f16);
      const Tensor loss = by_closure.scaler.scale(loss_of(by_closure.net, Batch(i)));
      loss.backward();
      if (i % 4 == 2) spoil(by_closure.net);
      return loss;
    });
    by_closure.scaler.update();
    EXPECT_EQ(step.skipped(), i % 4 == 2) << i;
  }
  EXPECT_EQ(bits(by_closure.net.parameters), bits(by_hand.net.parameters));
  EXPECT_EQ(by_closure.scaler.state_dict(), by_hand.scaler.state_dict());
}

TEST(GradScalerTraining, ResumingFromStateDictsContinuesBitForBit) {  // G-61, G-62
  Training straight;
  for (std::uint64_t i = 0; i < 12; ++i) straight.iterate(i);
  for (const std::uint64_t stop : {0U, 1U, 3U, 8U}) {
    Training before, after;
    after.iterate(99);  // what it holds must not matter
    for (std::uint64_t i = 0; i < stop; ++i) before.iterate(i);
    after.resume(before);
    for (std::uint64_t i = stop; i < 12; ++i) after.iterate(i);
    EXPECT_EQ(bits(after.net.parameters), bits(straight.net.parameters)) << stop;
    EXPECT_EQ(after.scaler.state_dict(), straight.scaler.state_dict()) << stop;
  }
  EXPECT_EQ(straight.scaler.steps_skipped(), 3);
}

}  // namespace
}  // namespace mezzo::amp
