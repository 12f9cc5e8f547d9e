// Algorithms with a state: a training that is stopped anywhere and resumed has the bits of one that was not;
// averages stand in the weights' place during evaluations and leave no trace.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/altered_loop.h"
#include "mezzo/train/algorithms.h"
#include "mezzo/train/callbacks.h"

namespace mezzo::train {
namespace {

namespace fs = std::filesystem;

AnyCallback stop_at(std::int64_t batch) {
  return on(Event::batch_end, [batch](State& state) {
    if (state.time.batch == batch) state.stop_training();
  });
}

/// All tensors that a checkpoint of the trainer holds.
std::vector<std::string> checkpoint_bits(const Trainer& trainer) {
  const io::TensorFile file = detail::checkpoint_of(trainer.parts(), {.gradients = false});
  return AlteredLoop::bits({file.tensors.begin(), file.tensors.end()});
}

class ResumedAlgorithms : public testing::TestWithParam<AlteredLoopOptions> {};

INSTANTIATE_TEST_SUITE_P(
    Ways, ResumedAlgorithms,
    testing::Values(AlteredLoopOptions{.microbatch = 3},
                    AlteredLoopOptions{
                        .precision = amp::Precision::amp_fp16, .accumulate = 2, .init_scale = 0x1p24},
                    AlteredLoopOptions{.precision = amp::Precision::amp_bf16, .images = true}),
    [](const auto& way) { return "way" + std::to_string(way.index); });

TEST_P(ResumedAlgorithms, HaveTheBitsOfOneRun) {
  using namespace algorithms;
  const std::string path =
      (fs::temp_directory_path() / ("mezzo-resumed-" + std::to_string(::getpid()))).string();
  const auto recipe = [&] {
    std::vector<AnyCallback> list{MixUp({.num_classes = 4}),
                                  LabelSmoothing(),
                                  GradientClipping({.norm = 0.5}),
                                  LayerFreezing({.start = 0.2, .level = 0.9}),
                                  EMA({.decay = 0.7}),
                                  SWA({.start = "0.3dur", .update_interval = "3ba"})};
    if (GetParam().images) {
      list.emplace_back(ProgressiveResizing({.delay_fraction = 0.2}));
      list.emplace_back(CutMix({.num_classes = 4}));
      list.emplace_back(ChannelsLast());
    }
    return list;
  };
  const auto options_of = [&](AlteredLoop& loop) {
    auto options = loop.trainer("2ep", recipe());
    options.eval_loader = loop.batches;
    options.eval_interval = "5ba";
    options.metrics = {{"accuracy", Accuracy()}};
    return options;
  };
  AlteredLoop straight(GetParam());
  Trainer whole(options_of(straight));
  whole.fit();
  const std::int64_t steps = whole.state().time.batch;
  ASSERT_EQ(steps, 24 / GetParam().accumulate);
  for (std::int64_t stop = 1; stop < steps; stop += stop < 5 ? 1 : 3) {
    {
      AlteredLoop loop(GetParam());
      auto options = options_of(loop);
      options.callbacks = {stop_at(stop)};
      Trainer first(options);
      first.fit();
      ASSERT_EQ(first.state().time.batch, stop);
      first.save_checkpoint(path);
    }
    AlteredLoop loop(GetParam());
    auto options = options_of(loop);
    manual_seed(99);  // what is there before must not matter
    options.load = path;
    Trainer second(options);
    second.fit();
    EXPECT_EQ(checkpoint_bits(second), checkpoint_bits(whole)) << "stopped after " << stop;
  }
  fs::remove(path);
}

// --- averages in evaluations

/// A metric that sees the weights, and throws where it is told to.
struct Watcher {
  const nn::Module& net;
  std::vector<std::vector<std::string>> seen = {};
  bool throws = false;
  [[nodiscard]] EvalMetric metric() {
    return {"watched", Mean(), [this](Mean& mean, const Tensor& output, const data::Example& batch) {
              if (seen.empty() || seen.back() != AlteredLoop::bits(net.named_parameters()))
                seen.push_back(AlteredLoop::bits(net.named_parameters()));
              mean.update(output);
              if (throws && equal(batch.target, batch.target))
                throw ValueError("Watcher", "calm", "an error", "");
            }};
  }
};

TEST(AveragesInEvaluations, TakeTheWeightsPlaceAndLeaveNoTrace) {
  AlteredLoop loop, plain;
  const auto ema = std::make_shared<algorithms::EMA>(optim::EMAOptions{.decay = 0.5});
  Watcher watcher{*loop.net};
  // A second average does not come in the first one's way.
  auto options = loop.trainer("3ba", {ema, algorithms::SWA({.start = "1ba", .update_interval = "1ba"})});
  options.eval_loader = loop.batches;
  options.metrics = {watcher.metric()};
  options.eval_interval = "1ba";
  Trainer trainer(options);
  trainer.eval();
  const auto initial = AlteredLoop::bits(loop.net->named_parameters());
  ASSERT_EQ(watcher.seen.size(), 1U);
  EXPECT_EQ(watcher.seen[0], initial) << "nothing was averaged yet";
  trainer.fit();
  EXPECT_EQ(watcher.seen.size(), 4U);
  EXPECT_EQ(watcher.seen.back(), AlteredLoop::bits(ema->average().averages()));
  EXPECT_NE(watcher.seen.back(), AlteredLoop::bits(loop.net->named_parameters()));
  plain.train("3ba", {});
  EXPECT_EQ(loop.bits(), plain.bits());
  // Predictions are those of the averages, too.
  const auto outputs = trainer.predict(loop.batches);
  EXPECT_EQ(loop.bits(), plain.bits());
  ema->average().copy_to_weights();
  loop.net->eval();
  EXPECT_TRUE(equal(outputs[1], (*loop.net)(loop.batches[1].data)));
}

TEST(AveragesInEvaluations, WeightsComeBackAfterAnException) {
  AlteredLoop loop, plain;
  Watcher watcher{*loop.net, {}, true};
  {
    auto options = loop.trainer("6ba", {algorithms::EMA({.decay = 0.5})});
    options.eval_loader = loop.batches;
    options.metrics = {watcher.metric()};
    options.eval_interval = "2ba";
    Trainer trainer(options);
    EXPECT_THROW(trainer.fit(), ValueError);
    ASSERT_EQ(trainer.state().time.batch, 2);
    watcher.throws = false;
    trainer.fit();  // goes on
    plain.train("6ba", {});
    EXPECT_EQ(loop.bits(), plain.bits());
    watcher.throws = true;
    EXPECT_THROW(trainer.eval(), ValueError);
  }
  EXPECT_EQ(loop.bits(), plain.bits()) << "after the trainer has gone";
}

TEST(AveragesInEvaluations, AverageTheParametersOfExchangedNorms) {
  using namespace algorithms;
  std::vector<std::vector<std::string>> averages;
  for (const bool norms_first : {false, true}) {
    AlteredLoop loop({.precision = amp::Precision::amp_bf16, .images = true});
    manual_seed(3);
    nn::Sequential net(nn::Conv2d(3, 8, 3), nn::GroupNorm(2, 8), nn::Flatten(), nn::Linear(480, 4));
    optim::SGD sgd(net, {.lr = 0.1});
    const auto ema = std::make_shared<EMA>(optim::EMAOptions{.decay = 0.5});
    std::vector<AnyCallback> list{ema, LowPrecisionGroupNorm()};
    if (norms_first) std::swap(list[0], list[1]);
    TrainerOptions options = loop.trainer("6ba", list);
    options.model = net;
    options.optimizer = sgd;
    Trainer(options).fit();
    averages.push_back(AlteredLoop::bits(ema->average().state_dict()));
    EXPECT_NE(AlteredLoop::bits({{"weight", ema->average().averages()[2].second}}),
              AlteredLoop::bits({{"weight", ones({8})}}))
        << "the norm's weight has moved";
  }
  EXPECT_EQ(averages[0], averages[1]);
}

/// A metric whose result is an error, behind the last batch of an evaluation.
class Unready final : public Metric {
 public:
  Unready() : Metric("Unready", "", {{Shape{}, DType::f64}}) {}
  void update(const Tensor& output, const Tensor& /*target*/) {
    count(output, [] {});
  }

 private:
  [[nodiscard]] Tensor result(const std::vector<Tensor>& /*sums*/) const override {
    throw ValueError("Unready", "patience", "none", "");
  }
};

TEST(AveragesInEvaluations, TrainingGoesOnBehindAMetricThatThrows) {
  AlteredLoop loop, plain;
  auto options = loop.trainer("4ba", {algorithms::EMA({.decay = 0.5})});
  options.eval_loader = loop.batches;
  options.metrics = {{"unready", Unready()}};
  options.eval_interval = "2ba";
  {
    Trainer trainer(std::move(options));
    for (const std::int64_t batch : {2, 4}) {
      EXPECT_THROW(trainer.fit(), ValueError);
      EXPECT_EQ(trainer.state().time.batch, batch);
    }
  }
  plain.train("4ba", {});
  EXPECT_EQ(loop.bits(), plain.bits());
}

TEST(AveragesInEvaluations, MastersOf16BitWeightsKeepTheirBits) {
  const auto trained = [](bool evaluates) {
    manual_seed(3);
    nn::Sequential net(nn::Linear(6, 16), nn::ReLU(), nn::Linear(16, 4));
    net.to(DType::bf16);
    optim::AdamW adam(net, {.lr = 0.003, .master_weights = true});
    Generator generator(11);
    std::vector<data::Example> batches;
    for (int i = 0; i < 8; ++i)
      batches.push_back({randn({8, 6}, {}, generator).to(DType::bf16), randint(0, 4, {8}, {}, generator)});
    TrainerOptions options{.model = net, .loss = nn::CrossEntropyLoss()};
    options.optimizer = adam;
    options.train_loader = batches;
    options.max_duration = "8ba";
    options.algorithms = {algorithms::EMA({.decay = 0.5})};
    options.progress_bar = false;
    options.eval_interval = "2ba";
    options.metrics = {{"accuracy", Accuracy()}};
    if (evaluates) options.eval_loader = batches;
    Trainer(options).fit();
    auto bits = AlteredLoop::bits(net.state_dict());
    for (const auto& text : AlteredLoop::bits(adam.state_dict().tensors)) bits.push_back(text);
    return bits;
  };
  EXPECT_EQ(trained(true), trained(false));
}

}  // namespace
}  // namespace mezzo::train
