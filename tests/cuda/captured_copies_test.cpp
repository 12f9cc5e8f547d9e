// The 16-bit copies of weights that a captured step uses: whatever happens to weights, to copies and to
// graphs that hold copies, while the step is recorded and between its replays, the bits are those of the
// eager step.
#include <memory>
#include <vector>

#include "cuda/captured_training.h"

namespace mezzo::captured {
namespace {

class CudaCapturedCopies : public twin::CudaTwin {};

constexpr BackwardOptions kRetain{.retain_graph = true};

/// A step as it would be without autocast.
void full_precision_step(Training& training) {
  training.optimizer->zero_grad();
  const Tensor loss = mse_loss(training.net.forward(training.input).to(DType::f32), training.target);
  training.scaler.scale(loss).backward();
  training.update();
}

/// Memory that was given back is somebody else's now.
void fill_free_memory(Training& training) {
  for (int i = 0; i < 40; ++i)
    training.held.push_back(full({16, 6 + i % 12}, 77, {.dtype = DType::f16, .device = kDevice}));
}

TEST_F(CudaCapturedCopies, AGraphThatLivesWhileTheStepIsRecorded) {
  expect_same_bits({.before = [](Training& training, int i) {
    if (i == kWarmup) training.held = {training.own_loss()};
    if (i != 6 || training.net.parameters()[0].dtype() != DType::f32) return;
    // It has the copies of its own time; f32 weights that it saves itself would refuse, as in an eager run.
    training.optimizer->zero_grad();
    training.held[0].backward();
    for (const Tensor& p : training.net.parameters()) training.note(p.grad());
    training.held.clear();
  }});
}

TEST_F(CudaCapturedCopies, AGraphThatLivesBetweenReplays) {
  expect_same_bits({.before = [](Training& training, int i) {
    if (training.net.parameters()[0].dtype() != DType::f32) return;
    if (i == 5) training.held = {training.own_loss()};
    if (i != 7) return;
    training.optimizer->zero_grad();
    training.held[0].backward();
    for (const Tensor& p : training.net.parameters()) training.note(p.grad());
    training.held.clear();
  }});
}

TEST_F(CudaCapturedCopies, AnEagerStepWithoutAutocastDropsNoneThatTheGraphUses) {
  expect_same_bits({.before = [](Training& training, int i) {
    if (i != 5 && i != 6 && i != 8) return;
    full_precision_step(training);
    fill_free_memory(training);
  }});
}

TEST_F(CudaCapturedCopies, AnEagerStepUnderAutocastBetweenReplays) {
  expect_same_bits({.before = [](Training& training, int i) {
    if (i == 4 || i == 7) static_cast<void>(training.step());
    if (i == 7) fill_free_memory(training);
  }});
}

TEST_F(CudaCapturedCopies, RulesOfPrecisionByModule) {
  std::vector<std::unique_ptr<amp::ModulePrecision>> rules;
  expect_same_bits({.before = [&](Training& training, int i) {
    if (i != 0) return;
    const amp::PrecisionRules list{{"0", DType::bf16}, {"2", DType::f32}};
    rules.push_back(std::make_unique<amp::ModulePrecision>(training.net, list));
    const NoGrad no_grad;
    const amp::Autocast autocast(kDevice, DType::f16);
    EXPECT_EQ(training.net(training.input).dtype(), DType::f32);
  }});
}

TEST_F(CudaCapturedCopies, ARetainedGraph) {
  expect_same_bits({.step = [](Training& training) {
    training.optimizer->zero_grad();
    const Tensor loss = training.loss();
    training.scaler.scale(loss).backward(kRetain);
    training.scaler.scale(loss).backward(kRetain);
    training.update();
    training.held = {loss};  // with the copies that it saved, until the next call
    return loss.detach();
  }});
}

TEST_F(CudaCapturedCopies, ABackwardAfterTheUpdateSeesTheWeightsOfItsForward) {
  expect_same_bits({.step = [](Training& training) {
    training.optimizer->zero_grad();
    const Tensor loss = training.loss();
    training.scaler.scale(loss).backward(kRetain);
    training.update();
    // Only weights that are not saved themselves may have changed.
    if (training.net.parameters()[0].dtype() == DType::f32) {
      training.optimizer->zero_grad();
      training.scaler.scale(loss).backward();
      training.update();
    }
    return loss.detach();
  }});
}

TEST_F(CudaCapturedCopies, TwoLosses) {
  expect_same_bits({.step = [](Training& training) {
    training.optimizer->zero_grad();
    Tensor first, second;
    {
      const amp::Autocast autocast(kDevice, training.dtype);
      const Tensor y = training.net.forward(training.input).to(DType::f32);
      first = mse_loss(y, training.target);
      second = mean(square(y));
    }
    training.scaler.scale(first).backward(kRetain);
    training.scaler.scale(second).backward();
    training.update();
    return (first + second).detach();
  }});
}

TEST_F(CudaCapturedCopies, TwoUpdatesInOneStep) {
  expect_same_bits({.step = [](Training& training) {
    static_cast<void>(training.step());
    return training.step();
  }});
}

TEST_F(CudaCapturedCopies, WeightsWrittenInTheStepBeforeForward) {
  expect_same_bits({.step = [](Training& training) {
    {
      const NoGrad no_grad;
      for (const Tensor& p : training.net.parameters()) p.mul_(0.96875);
    }
    return training.step();
  }});
}

TEST_F(CudaCapturedCopies, WeightsWrittenInTheStepAfterTheUpdate) {
  expect_same_bits({.step = [](Training& training) {
    const Tensor loss = training.step();
    const NoGrad no_grad;
    for (const Tensor& p : training.net.parameters()) p.copy_(clamp(p, -0.25, 0.25));
    return loss;
  }});
}

TEST_F(CudaCapturedCopies, WritesBetweenReplays) {
  expect_same_bits({.before = [](Training& training, int i) {
    const NoGrad no_grad;
    const std::vector<Tensor> parameters = training.net.parameters();
    if (i == 3 || i == 5) parameters[0].mul_(0.5);
    if (i == 6) parameters[2].copy_(twin::values(7, {3, 16}, DType::f32, kDevice));
    if (i == 8) select(parameters[2].detach(), 0, 1).fill_(0.125);  // through a view of the same memory
  }});
}

TEST_F(CudaCapturedCopies, StateLoadedBetweenReplays) {
  struct Saved {
    nn::NamedTensors weights;
    optim::OptimizerState optimizer;
    Value scaler;
  };
  std::vector<std::pair<Training*, Saved>> all;
  expect_same_bits({.before = [&](Training& training, int i) {
    if (i == 2 || i == 5) {
      Saved saved;
      for (const auto& [name, tensor] : training.net.state_dict())
        saved.weights.emplace_back(name, tensor.detach().clone());
      saved.optimizer = training.optimizer->state_dict();
      for (auto& [name, tensor] : saved.optimizer.tensors) tensor = tensor.detach().clone();
      saved.scaler = training.scaler.state_dict();
      std::erase_if(all, [&](const auto& entry) { return entry.first == &training; });
      all.emplace_back(&training, saved);
    }
    if (i != 3 && i != 4 && i != 7 && i != 8) return;
    for (const auto& [owner, saved] : all) {
      if (owner != &training) continue;
      training.net.load_state_dict(saved.weights);
      if (i == 4) continue;  // weights alone
      training.optimizer->load_state_dict(saved.optimizer);
      training.scaler.load_state_dict(saved.scaler);
    }
  }});
}

TEST_F(CudaCapturedCopies, AnEvaluationBetweenReplaysSeesTheNewWeights) {
  expect_same_bits({.before = [](Training& training, int i) {
    training.evaluate(true);
    if (training.net.parameters()[0].dtype() == DType::f32) training.evaluate(false);
    if (i % 2 == 0) training.evaluate(true);
  }});
}

TEST_F(CudaCapturedCopies, AnOpenRegionAroundAllCalls) {
  std::unique_ptr<amp::Autocast> region;
  expect_same_bits({.before = [&](Training& training, int i) {
    if (i == 0) region = std::make_unique<amp::Autocast>(kDevice, training.dtype);
    training.evaluate(true);
    if (i == kCalls - 1) region.reset();
  }});
}

TEST_F(CudaCapturedCopies, AnEvaluationThatIsCapturedToo) {
  for (const bool adam : {false, true}) {
    Training eager(adam), captured(adam);
    amp::CapturedStep train(
        kDevice, [&] { return captured.step(); }, 2);
    const auto forward = [](Training& training) {
      const NoGrad no_grad;
      const amp::Autocast autocast(kDevice, training.dtype);
      return sum(training.net.forward(training.input).to(DType::f32));
    };
    amp::CapturedStep evaluate(
        kDevice, [&] { return forward(captured); }, 1);
    for (int i = 0; i < kCalls; ++i) {
      for (Training* training : {&eager, &captured}) training->load(i);
      ASSERT_EQ(train().item<double>(), eager.step().item<double>()) << "call " << i;
      ASSERT_EQ(evaluate().item<double>(), forward(eager).item<double>()) << "call " << i;
      ASSERT_EQ(captured.state(), eager.state()) << "call " << i;
    }
  }
}

TEST_F(CudaCapturedCopies, AReplayCountsAsAWrite) {
  Training training(false);
  amp::CapturedStep step(
      kDevice, [&] { return training.step(); }, 1);
  training.load(0);
  static_cast<void>(step());
  const Tensor result = step();
  const Tensor parameter = training.net.parameters()[0], gradient = parameter.grad();
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t before[] = {parameter.version(), gradient.version(), result.version(),
                                    training.input.version()};
    static_cast<void>(step());
    EXPECT_NE(parameter.version(), before[0]) << "written in place";
    EXPECT_NE(gradient.version(), before[1]) << "made by the step";
    EXPECT_NE(result.version(), before[2]) << "made by the step";
    EXPECT_EQ(training.input.version(), before[3]) << "only read";
    EXPECT_TRUE(parameter.grad().is_same(gradient));
  }
  // A graph that saved a result of the step refuses the values of the next call.
  const Tensor w = ones({}, {.device = kDevice, .requires_grad = true});
  const Tensor y = result * w;
  static_cast<void>(step());
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST_F(CudaCapturedCopies, AReplayGivesLeavesTheirGradientsBack) {
  Training training(false);
  amp::CapturedStep step(
      kDevice, [&] { return training.step(); }, 1);
  training.load(0);
  for (int i = 0; i < 3; ++i) static_cast<void>(step());
  training.optimizer->zero_grad();
  static_cast<void>(step());
  EXPECT_TRUE(training.net.parameters()[0].grad().defined());
}

TEST_F(CudaCapturedCopies, AStepCostsNoCastAndNoCopyMore) {
  Training training(false);
  amp::CapturedStep step(
      kDevice, [&] { return training.step(); }, 2);
  training.load(0);
  for (int i = 0; i < 4; ++i) static_cast<void>(step());
  const MemoryStats before = memory_stats(kDevice);
  for (int i = 0; i < 3; ++i) static_cast<void>(step());
  EXPECT_EQ(memory_stats(kDevice).allocations, before.allocations);
  EXPECT_EQ(memory_stats(kDevice).current, before.current);
}

}  // namespace
}  // namespace mezzo::captured
