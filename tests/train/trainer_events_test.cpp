// The order of a trainer's events, and what callbacks see and may change.
#include <gtest/gtest.h>

#include "mezzo/tests/train/trainer_support.h"

namespace mezzo::train {
namespace {

/// Every event with its time.
class Recorder final : public Callback {
 public:
  explicit Recorder(std::vector<std::string>& seen) : seen_(seen) {}
  [[nodiscard]] bool match(Event /*event*/) const override { return true; }
  void run(Event event, State& /*state*/) override { seen_.emplace_back(to_string(event)); }

 private:
  std::vector<std::string>& seen_;
};

std::vector<std::string> joined(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<std::string> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

const std::vector<std::string> kConstruction{"init", "before_load", "after_load"};
const std::vector<std::string> kFetch{"before_dataloader", "after_dataloader"};
const std::vector<std::string> kPart{"before_forward", "after_forward",   "before_loss",
                                     "after_loss",     "before_backward", "after_backward"};
const std::vector<std::string> kEvalBatch{"eval_batch_start", "eval_before_forward", "eval_after_forward",
                                          "eval_batch_end"};

std::vector<data::Example> batches(int count) {
  Generator generator(5);
  std::vector<data::Example> list;
  for (int i = 0; i < count; ++i)
    list.push_back({randn({4, 6}, {}, generator), randint(0, 4, {4}, {}, generator)});
  return list;
}

class TrainerEvents : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainerEvents, ComeInTheOrderThatIsWritten) {
  Bench bench({.precision = GetParam()});
  auto train = batches(2), eval = batches(1);
  std::vector<std::string> seen;
  TrainerOptions options = bench.options();
  options.train_loader = train;
  options.eval_loader = eval;
  options.metrics = {{"accuracy", Accuracy()}};
  options.microbatch = 2;
  options.max_duration = "1ep";
  options.callbacks = {Recorder(seen)};
  Trainer trainer(options);
  trainer.fit();

  const std::vector<std::string> batch = joined({kFetch,
                                                 {"batch_start", "before_train_batch"},
                                                 kPart,
                                                 kPart,
                                                 {"after_train_batch", "batch_end", "batch_checkpoint"}});
  EXPECT_EQ(seen, joined({kConstruction,
                          {"fit_start", "iteration_start", "epoch_start"},
                          batch,
                          batch,
                          {"before_dataloader", "epoch_end", "eval_start"},
                          kEvalBatch,
                          {"eval_end", "epoch_checkpoint", "fit_end"}}));
}
INSTANTIATE_TEST_SUITE_P(Precisions, TrainerEvents, ::testing::Values("fp32", "amp_fp16", "amp_bf16"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(TrainerEvent, AnEndInBatchesEvaluatesThereAndEndsNoEpoch) {
  Bench bench({});
  auto train = batches(3), eval = batches(1);
  std::vector<std::string> seen;
  TrainerOptions options = bench.options();
  options.train_loader = train;
  options.eval_loader = eval;
  options.eval_interval = "2ba";
  options.metrics = {{"accuracy", Accuracy()}};
  options.max_duration = "4ba";
  options.callbacks = {Recorder(seen)};
  Trainer trainer(options);
  trainer.fit();
  const auto count = [&](const char* name) { return std::count(seen.begin(), seen.end(), name); };
  EXPECT_EQ(count("batch_end"), 4);
  EXPECT_EQ(count("epoch_start"), 2);
  EXPECT_EQ(count("epoch_end"), 1);
  EXPECT_EQ(count("eval_start"), 2);  // at batches 2 and 4, and not once more at the end
  EXPECT_EQ(trainer.state().time.batch_in_epoch, 1);
}

TEST(TrainerEvent, AnEndInBatchesThatIsAnEpochsEndsIt) {
  Bench bench({});
  auto train = batches(3);
  std::vector<std::string> seen;
  TrainerOptions options = bench.options();
  options.train_loader = train;
  options.max_duration = "3ba";
  options.callbacks = {Recorder(seen)};
  Trainer trainer(options);
  trainer.fit();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "epoch_end"), 1);
  EXPECT_EQ(trainer.state().time.epoch, 1);
  trainer.fit("1ba");
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "epoch_start"), 2);
}

TEST(TrainerEvent, IterationsAreEpochsOrTokens) {
  for (const char* length : {"2ep", "32tok"}) {
    Bench bench({});
    auto train = batches(2);
    std::vector<std::string> seen;
    TrainerOptions options = bench.options();
    options.train_loader = train;
    options.tokens = [](const data::Example& batch) { return batch.target.numel(); };
    options.max_duration = "4ep";
    options.iteration_length = Time(length);
    options.callbacks = {Recorder(seen)};
    Trainer trainer(options);
    trainer.fit();
    // 4 epochs of 2 batches of 4 tokens: 32 tokens, or 2 times 2 epochs.
    const std::int64_t iterations = std::string(length) == "2ep" ? 2 : 1;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), "iteration_start"), iterations) << length;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), "iteration_end"), iterations) << length;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), "iteration_checkpoint"), iterations) << length;
    EXPECT_EQ(trainer.state().time.iteration, iterations) << length;
  }
}

TEST(TrainerEvent, AccumulationTakesSeveralBatchesPerStep) {
  Bench bench({.accumulate = 2});
  auto train = batches(3);
  std::vector<std::string> seen;
  TrainerOptions options = bench.options();
  options.train_loader = train;
  options.max_duration = "1ep";
  options.callbacks = {Recorder(seen)};
  Trainer trainer(options);
  trainer.fit();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "after_dataloader"), 3);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "batch_end"), 2);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "before_forward"), 3);
}

TEST(TrainerEvent, AlgorithmsComeBeforeCallbacksInTheirOrder) {
  Bench bench({});
  auto train = batches(1);
  std::string order;
  const auto note = [&](char letter) {
    return on(Event::batch_start, [&order, letter](State& /*state*/) { order += letter; });
  };
  TrainerOptions options = bench.options();
  options.train_loader = train;
  options.max_duration = 1;
  options.callbacks = {note('c'), note('d')};
  options.algorithms = {note('a'), note('b')};
  Trainer(options).fit();
  EXPECT_EQ(order, "abcd");
}

TEST(TrainerEvent, CallbacksStopAndReplaceBatchAndLoss) {
  Bench bench({});
  auto train = batches(5);
  TrainerOptions options = bench.options();
  options.train_loader = train;
  options.max_duration = "2ep";
  double loss = 0, doubled = 0;
  std::int64_t samples = 0;
  options.algorithms = {
      on(Event::after_dataloader, [](State& state) { state.batch = state.batch.narrow(0, 3); }),
      on(Event::after_loss, [&](State& state) {
        loss = state.loss.item();
        state.loss = state.loss * 2.0;
      })};
  options.callbacks = {on(Event::batch_end, [&](State& state) {
    doubled = state.loss.item();
    samples += state.batch_samples;
    if (state.time.batch == 3) state.stop_training();
  })};
  Trainer trainer(options);
  trainer.fit();
  EXPECT_EQ(trainer.state().time.batch, 3);
  EXPECT_EQ(samples, 9);
  EXPECT_EQ(doubled, 2 * loss);
}

TEST(TrainerEvent, WhatACallbackThrowsHasItsNameAndCause) {
  Bench bench({});
  auto train = batches(2);
  TrainerOptions options = bench.options();
  options.train_loader = train;
  options.max_duration = 1;
  options.callbacks = {
      on(Event::after_loss, [](State& /*state*/) { throw std::out_of_range("no such page"); })};
  Trainer trainer(options);
  try {
    trainer.fit();
    FAIL() << "nothing was thrown";
  } catch (const CallbackError& error) {
    EXPECT_STREQ(error.what(),
                 "Trainer: expected on(after_loss) to return at after_loss, got an exception: no such page");
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
}

TEST(TrainerEvent, NormAlgorithmsAreAppliedAtInit) {
  nn::Sequential net(nn::Conv2d(1, 4, 3), nn::GroupNorm(2, 4), nn::ReLU(), nn::Flatten(), nn::Linear(16, 2));
  std::vector<data::Example> train{{randn({2, 1, 4, 4}), zeros({2}, {.dtype = DType::i64})}};
  optim::SGD sgd(net);
  Trainer trainer({.model = net,
                   .loss = nn::CrossEntropyLoss(),
                   .optimizer = sgd,
                   .train_loader = train,
                   .max_duration = 1,
                   .precision = "amp_bf16",
                   .algorithms = {algorithms::LowPrecisionGroupNorm{}},
                   .progress_bar = false});
  trainer.fit();
  EXPECT_NE(dynamic_cast<amp::LPGroupNorm*>(net.children()[1].get()), nullptr);
}

}  // namespace
}  // namespace mezzo::train
