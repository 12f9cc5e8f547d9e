// Algorithms and callbacks of a trainer on a CUDA device: beside a loop by hand, and around a recorded step.
#include "mezzo/tests/cuda/device_fixture.h"
#include "mezzo/tests/train/altered_loop.h"

namespace mezzo::train {
namespace {

class CudaAlgorithms : public test::CudaTest {
 protected:
  static std::vector<AlteredLoopOptions> ways() {
    auto ways = altered_loop_ways();
    for (auto& way : ways) way.device = Device::cuda(0);
    return ways;
  }
};

TEST_F(CudaAlgorithms, HaveTheBitsOfALoopByHand) {
  constexpr int kSteps = 7;
  for (const AlteredLoopOptions& way : ways()) {
    AlteredLoop trained(way), by_hand(way);
    const auto ema = std::make_shared<algorithms::EMA>(optim::EMAOptions{.decay = 0.5});
    std::vector<data::Example> seen;
    trained.train(Time(kSteps, TimeUnit::batch),
                  {algorithms::MixUp({.num_classes = 4}), algorithms::LabelSmoothing({.smoothing = 0.2}),
                   algorithms::GradientClipping({.norm = 0.1}), ema,
                   on(Event::after_dataloader,
                      [&](State& state) { seen.push_back(state.batch.get<data::Example>()); })});
    std::optional<optim::EMA> average;
    by_hand.run(
        kSteps,
        {.before_step =
             [&](int step) {
               if (step == 0) average.emplace(*by_hand.net, optim::EMAOptions{.decay = 0.5});
             },
         .batch = [&](const data::Example&, int step,
                      int place) { return seen.at(static_cast<std::size_t>(step * way.accumulate + place)); },
         .target = [](const Tensor& target, const Tensor&) { return target * (1 - 0.2) + 0.2 / 4; },
         .gradients = [&] { optim::clip_grad_norm_(by_hand.net->parameters(), 0.1); },
         .after_step = [&](int, const amp::StepResult& result) { average->update(result); }});
    EXPECT_EQ(trained.bits(), by_hand.bits());
    EXPECT_EQ(AlteredLoop::bits(ema->average().state_dict()), AlteredLoop::bits(average->state_dict()));
    if (way.init_scale > 0x1p20) {
      EXPECT_GT(by_hand.skipped, 0);
    }
  }
}

TEST_F(CudaAlgorithms, WatchARecordedStep) {
  for (AlteredLoopOptions way : ways()) {
    way.microbatch.reset();
    way.accumulate = 1;
    std::vector<std::vector<std::string>> results;
    for (const bool captured : {false, true}) {
      AlteredLoop loop(way);
      const auto ema = std::make_shared<algorithms::EMA>(optim::EMAOptions{.decay = 0.5});
      TrainerOptions options =
          loop.trainer("20ba", {algorithms::MixUp({.num_classes = 4}), ema,
                                algorithms::SWA({.start = "5ba", .update_interval = "1ba"})});
      options.callbacks = {callbacks::SpeedMonitor(), callbacks::MemoryMonitor(), callbacks::LRMonitor(),
                           callbacks::AnomalyHunt({.every = 3})};
      options.captured = captured;
      Trainer(options).fit();
      results.push_back(loop.bits());
      for (auto& text : AlteredLoop::bits(ema->average().state_dict())) results.back().push_back(text);
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST_F(CudaAlgorithms, WhatNeedsTheHostWithinAStepIsRefusedForARecordedOne) {
  const auto refuses = [](AnyCallback algorithm) {
    AlteredLoop loop({.device = Device::cuda(0)});
    TrainerOptions options = loop.trainer("2ba", {std::move(algorithm)});
    options.captured = true;
    EXPECT_THROW(Trainer{options}, ValueError);
  };
  refuses(algorithms::LayerFreezing());
  refuses(algorithms::LabelSmoothing());
  refuses(algorithms::GradientClipping({.norm = 1}));
  refuses(callbacks::TrainMetrics({{"accuracy", Accuracy()}}));
}

}  // namespace
}  // namespace mezzo::train
