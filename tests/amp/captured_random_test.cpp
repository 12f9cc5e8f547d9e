// Random numbers in a captured step: the bits of the step run eagerly, call after call. On a machine without
// a CUDA device both sides run eagerly.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/core/cuda.h"
#include "mezzo/mezzo.h"

namespace mezzo::amp {
namespace {

using Numbers = std::vector<double>;

/// One of each kind of draw, in each compute type, with counts that leave parts of blocks unused.
Tensor draw_everything(Device device, Generator& generator) {
  const Tensor target = zeros({5, 2}, {.dtype = DType::bf16, .device = device});
  uniform_(target, -1, 1, generator);
  const std::vector<Tensor> drawn{
      randn({7, 5}, {.device = device}, generator),
      rand({3}, {.dtype = DType::f64, .device = device}, generator),
      normal(1, 2, {9}, {.dtype = DType::f16, .device = device}, generator),
      normal(-1, 3, {5}, {.dtype = DType::f64, .device = device}, generator),
      randint(-5, 1000, {6}, {.device = device}, generator),
      lt(rand({4, 4}, {.device = device}, generator), 0.5),
      rand({0}, {.device = device}, generator),
      target,
  };
  std::vector<Tensor> flat;
  for (const Tensor& x : drawn) flat.push_back(flatten(x.to(DType::f64)));
  return cat(flat, 0);
}

class CapturedRandom : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(42); }
  void TearDown() override { manual_seed(0); }

  void need_cuda() const {
    if (!device.is_cuda()) GTEST_SKIP() << "no CUDA device: nothing is recorded on the CPU";
  }
  const Device device = Device::best();
};

/// What eight calls of a step gave; before call i, `between(i)`.
std::vector<Numbers> calls(const std::function<Tensor()>& step, const std::function<void(int)>& between) {
  std::vector<Numbers> all;
  for (int i = 0; i < 8; ++i) {
    between(i);
    all.push_back(step().to_vector<double>());
  }
  return all;
}

/// The same eagerly and captured, from the same seeds on.
void expect_same_bits(Device device, Generator& generator, const std::function<void(int)>& between) {
  const GeneratorState start = generator.state();
  const auto step = [&] { return draw_everything(device, generator); };
  const std::vector<Numbers> eager = calls(step, between);
  const GeneratorState end = generator.state();
  generator.set_state(start);
  CapturedStep captured(device, step, 2);
  EXPECT_EQ(calls([&] { return captured(); }, between), eager);
  EXPECT_EQ(generator.state(), end);
  EXPECT_EQ(captured.is_recorded(), device.is_cuda());
  EXPECT_NE(eager[6], eager[7]) << "each call draws anew";
}

TEST_F(CapturedRandom, GivesTheBitsOfEagerCalls) {
  expect_same_bits(device, default_generator(), [](int) {});
}

// Where a recorded draw begins is written before the replay, so other work of the step must not use the
// place.
TEST_F(CapturedRandom, WorkBeforeTheFirstDrawLeavesItAlone) {
  const auto step = [&] {
    {
      const Tensor a = full({4}, 1, {.device = device}), b = full({4}, 2, {.device = device});
      const Tensor c = a + b;
    }  // their memory is free again
    return randn({5}, {.device = device});
  };
  const std::vector<Numbers> eager = calls(step, [](int) {});
  manual_seed(42);
  CapturedStep captured(device, step, 2);
  EXPECT_EQ(calls([&] { return captured(); }, [](int) {}), eager);
}

TEST_F(CapturedRandom, EagerDrawsBetweenReplaysTakeTheirTurn) {
  Numbers seen;
  expect_same_bits(device, default_generator(), [&](int i) {
    const Numbers drawn = randn({3 + i}, {.device = device}).to_vector<double>();
    if (i == 7) seen.push_back(drawn.front());
  });
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0], seen[1]);
}

TEST_F(CapturedRandom, SeedingBetweenReplaysWorks) {
  expect_same_bits(device, default_generator(), [](int i) {
    if (i == 5) manual_seed(0xfedcba9876543210);
  });
  manual_seed(7);
  CapturedStep step(
      device, [&] { return draw_everything(device, default_generator()); }, 1);
  const Numbers first = step().to_vector<double>();
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(step().to_vector<double>(), first);
    manual_seed(7);
    EXPECT_EQ(step().to_vector<double>(), first);
  }
}

TEST_F(CapturedRandom, AnyGeneratorServes) {
  Generator own(3);
  own.set_state({3, 0xfffffffffU});  // offsets are 64 bits wide
  expect_same_bits(device, own, [](int i) {
    if (i % 2 == 1) static_cast<void>(rand({5}));
  });
}

TEST_F(CapturedRandom, AStepMayDrawFromSeveral) {
  Generator one(1), two(2);
  const auto step = [&] {
    const Tensor sum = randn({5}, {.device = device}, one) + randn({5}, {.device = device}, two);
    return sum + randn({5}, {.device = device}) * randn({5}, {.device = device}, one);
  };
  const auto nothing = [](int) {};
  const std::vector<Numbers> eager = calls(step, nothing);
  SetUp();
  one.manual_seed(1);
  two.manual_seed(2);
  CapturedStep captured(device, step, 1);
  EXPECT_EQ(calls([&] { return captured(); }, nothing), eager);
}

TEST_F(CapturedRandom, TwoStepsShareAGenerator) {
  const auto first = [&] { return randn({6}, {.device = device}); };
  const auto second = [&] { return rand({17}, {.device = device}); };
  const auto alternate = [&](auto&& a, auto&& b) {
    std::vector<Numbers> all;
    for (int i = 0; i < 6; ++i) all.push_back((i % 3 == 1 ? b() : a()).template to_vector<double>());
    return all;
  };
  const std::vector<Numbers> eager = alternate(first, second);
  SetUp();
  CapturedStep one(device, first, 1), other(device, second, 1);
  EXPECT_EQ(alternate([&] { return one(); }, [&] { return other(); }), eager);
}

TEST_F(CapturedRandom, AGeneratorMayEndBeforeTheStep) {
  const auto run = [&](bool ends) {
    auto own = std::make_unique<Generator>(11);
    CapturedStep step(
        device, [&] { return randn({9}, {.device = device}, *own); }, 1);
    std::vector<Numbers> all;
    for (int i = 0; i < 5; ++i) {
      if (ends && i == 2) own.reset();
      all.push_back(step().to_vector<double>());
    }
    return all;
  };
  need_cuda();
  if (IsSkipped()) return;
  EXPECT_EQ(run(true), run(false));
}

TEST_F(CapturedRandom, AGeneratorOfTheStepItselfStartsAnewEachTime) {
  CapturedStep step(
      device,
      [&] {
        Generator mine(5);
        return rand({8}, {.device = device}, mine);
      },
      1);
  const Numbers first = step().to_vector<double>();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step().to_vector<double>(), first);
}

/// A training step with noise on its input, in f16 with a scaler.
struct Noisy {
  Noisy() {
    net.to(device);
    optimizer = std::make_unique<optim::SGD>(net.parameters(), optim::SGDOptions{.lr = 0.1});
  }
  Tensor step() {
    optimizer->zero_grad();
    const Tensor kept = lt(rand(input.shape(), {.device = device}), 0.8).to(DType::f32);
    Tensor loss;
    {
      const Autocast autocast(device, DType::f16);
      loss = mse_loss(net.forward(input * kept), target);
    }
    scaler.scale(loss).backward();
    static_cast<void>(scaler.step(*optimizer));
    scaler.update();
    return loss;
  }
  Device device = Device::best();
  nn::Sequential net{nn::make<nn::Linear>(6, 16), nn::make<nn::ReLU>(), nn::make<nn::Linear>(16, 3)};
  std::unique_ptr<optim::SGD> optimizer;
  GradScaler scaler{{.init_scale = 256}};
  Tensor input = randn({8, 6}, {.device = device}), target = randn({8, 3}, {.device = device});
};

TEST_F(CapturedRandom, TrainingWithNoise) {
  const auto losses = [&](bool captures) {
    manual_seed(9);
    Noisy training;
    CapturedStep step(
        training.device, [&] { return training.step(); }, captures ? 2 : 100);
    Numbers all;
    for (int i = 0; i < 9; ++i) all.push_back(step().item<double>());
    EXPECT_EQ(step.is_recorded(), captures && training.device.is_cuda());
    for (const Tensor& p : training.net.parameters()) {
      for (const double value : p.detach().to_vector<double>()) all.push_back(value);
    }
    return all;
  };
  EXPECT_EQ(losses(true), losses(false));
}

// --- what cannot be recorded

/// Expects recording to be refused and the generator to stand where it stood, and a step without it to work.
void expect_refused(Device device, const std::string& op, const std::function<void()>& forbidden) {
  bool asks = true;
  CapturedStep step(
      device,
      [&] {
        const Tensor drawn = rand({5}, {.device = device});
        if (asks) forbidden();
        return drawn;
      },
      1);
  manual_seed(21);
  const Numbers first = step().to_vector<double>();
  const GeneratorState before = default_generator().state();
  try {
    static_cast<void>(step());
    FAIL() << op << " was recorded";
  } catch (const StateError& error) {
    EXPECT_EQ(error.op(), op);
    EXPECT_FALSE(error.fix().empty());
  }
  EXPECT_FALSE(step.is_recorded());
  EXPECT_EQ(default_generator().state(), before);
  asks = false;
  manual_seed(21);
  EXPECT_EQ(step().to_vector<double>(), first);
  EXPECT_TRUE(step.is_recorded());
}

TEST_F(CapturedRandom, WhatWouldHappenOnceIsRefused) {
  need_cuda();
  if (IsSkipped()) return;
  expect_refused(device, "randperm", [&] { static_cast<void>(randperm(6, {.device = device})); });
  expect_refused(device, "normal", [] { static_cast<void>(randn({3})); });
  expect_refused(device, "Generator::draw", [] { static_cast<void>(default_generator().draw(1)); });
  expect_refused(device, "Generator::set_state", [] { manual_seed(4); });
}

// --- streams

TEST_F(CapturedRandom, ReplaysInTwoStreamsComeOneAfterTheOther) {
  need_cuda();
  if (IsSkipped()) return;
  const Tensor total = zeros({5}, {.device = device});
  const auto add = [&](const Tensor& to) { return to.add_(randn({5}, {.device = device})); };
  CapturedStep step(
      device, [&] { return add(total); }, 1);
  for (int i = 0; i < 2; ++i) static_cast<void>(step());
  const Tensor expected = clone(total);
  synchronize(device);
  const cuda::Stream first(device), second(device);
  manual_seed(1);
  for (const cuda::Stream* const stream : {&first, &second}) {
    const cuda::StreamGuard guard(*stream);
    static_cast<void>(step());
  }
  synchronize(device);
  manual_seed(1);
  for (int i = 0; i < 2; ++i) static_cast<void>(add(expected));
  EXPECT_EQ(total.to_vector<double>(), expected.to_vector<double>());
}

}  // namespace
}  // namespace mezzo::amp
