// Runs that are stopped by a signal or resumed by a program that has changed, and the lines that say what to
// do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "mezzo/tests/data/temporary_folder.h"
#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/altered_loop.h"

namespace mezzo::train {
namespace {

using test::CaughtWarnings;
using test::message_of;

class TrainerRuns : public data::TemporaryFolder {
 protected:
  [[nodiscard]] TrainerOptions saving(AlteredLoop& loop, Time end) const {
    TrainerOptions options = loop.trainer(end);
    options.save = {.folder = path("run"), .interval = "1ba"};
    options.resume = true;
    return options;
  }
};

// --- parts of callbacks

std::vector<double> first_average(const algorithms::EMA& ema) {
  return ema.average().averages().front().second.to_vector<double>();
}

TEST_F(TrainerRuns, AveragesKeepTheirNamesInAnotherOrderOfTheList) {
  const auto fast = std::make_shared<algorithms::EMA>(optim::EMAOptions{.decay = 0.1});
  const auto slow = std::make_shared<algorithms::EMA>(optim::EMAOptions{.decay = 0.9});
  {
    AlteredLoop loop;
    TrainerOptions options = saving(loop, "3ba");
    options.algorithms = {fast, slow};
    Trainer(options).fit();
  }
  ASSERT_NE(first_average(*fast), first_average(*slow));
  AlteredLoop loop;
  TrainerOptions options = saving(loop, "4ba");
  const auto slow_again = std::make_shared<algorithms::EMA>(optim::EMAOptions{.decay = 0.9});
  const auto fast_again = std::make_shared<algorithms::EMA>(optim::EMAOptions{.decay = 0.1});
  options.algorithms = {slow_again, fast_again};
  const Trainer trainer(options);
  EXPECT_EQ(trainer.state().time.batch, 3);
  EXPECT_EQ(first_average(*slow_again), first_average(*slow));
  EXPECT_EQ(first_average(*fast_again), first_average(*fast));
}

TEST_F(TrainerRuns, CallbacksMayComeAndGo) {
  {
    AlteredLoop loop;
    TrainerOptions options = saving(loop, "2ba");
    options.algorithms = {algorithms::EMA({.decay = 0.1})};
    Trainer(options).fit();
  }
  const CaughtWarnings warnings;
  AlteredLoop loop;
  TrainerOptions options = saving(loop, "3ba");
  options.algorithms = {algorithms::EMA({.decay = 0.5})};
  options.eval_loader = loop.batches;
  options.metrics = {{"accuracy", Accuracy()}};
  options.callbacks = {callbacks::EarlyStopping()};
  Trainer trainer(options);
  EXPECT_EQ(trainer.state().time.batch, 2);
  const std::string text = warnings.text_of("trainer_callbacks");
  EXPECT_NE(text.find("callback.EMA(0.1)"), std::string::npos) << text;
  EXPECT_NE(text.find("callback.EMA(0.5).average"), std::string::npos) << text;
  EXPECT_NE(text.find("callback.EarlyStopping(loss)"), std::string::npos) << text;
  trainer.fit();
  EXPECT_EQ(trainer.state().time.batch, 3);
}

TEST_F(TrainerRuns, APartOfTheTrainingItselfMayNot) {
  {
    AlteredLoop loop;
    Trainer(saving(loop, "2ba")).fit();
  }
  AlteredLoop loop;
  TrainerOptions options = saving(loop, "3ba");
  options.schedule = optim::StepLROptions{.step_size = 1};
  EXPECT_NE(message_of<ValueError>([&] { return Trainer(options).state().time.batch; }).find("schedule"),
            std::string::npos);
}

TEST_F(TrainerRuns, AnotherRateOrOrderIsSaid) {
  const auto run = [&](double lr, bool shuffle, Time end) {
    AlteredLoop loop;
    optim::SGD sgd(*loop.net, {.lr = lr});
    Generator generator(11);
    data::DataLoader loader(
        data::TensorDataset(randn({48, 6}, {}, generator), randint(0, 4, {48}, {}, generator)),
        {.batch_size = 8, .shuffle = shuffle});
    TrainerOptions options = saving(loop, end);
    options.optimizer = sgd;
    options.train_loader = loader;
    Trainer trainer(options);
    trainer.fit();
    return sgd.lr();
  };
  EXPECT_EQ(run(0.1, true, "2ba"), 0.1);
  {
    const CaughtWarnings warnings;
    EXPECT_EQ(run(0.1, true, "3ba"), 0.1);
    EXPECT_EQ(warnings.text_of("trainer_learning_rate"), "");
    EXPECT_EQ(warnings.text_of("loader_order"), "");
  }
  const CaughtWarnings warnings;
  EXPECT_EQ(run(0.2, false, "4ba"), 0.1) << "the checkpoint's";
  EXPECT_NE(warnings.text_of("trainer_learning_rate").find("[0.2]"), std::string::npos);
  EXPECT_NE(warnings.text_of("loader_order").find("another one"), std::string::npos);
}

// --- signals

TEST_F(TrainerRuns, ASignalSavesAndStops) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    std::filesystem::remove_all(path("run"));
    const auto run = [&](bool is_signalled) {
      AlteredLoop loop;
      TrainerOptions options = saving(loop, "9ba");
      options.save.interval = "1ep";
      options.on_signal = OnSignal::save_and_stop;
      options.eval_loader = loop.batches;
      options.metrics = {{"accuracy", Accuracy()}};
      int evaluations = 0;
      options.callbacks = {on(Event::before_forward,
                              [&](State& state) {
                                if (is_signalled && state.time.batch == 3) std::raise(signal);
                              }),
                           on(Event::eval_start, [&](State&) { ++evaluations; })};
      Trainer trainer(options);
      const FitEnd end = trainer.fit();
      EXPECT_EQ(end, is_signalled ? FitEnd::signalled : FitEnd::finished);
      EXPECT_EQ(evaluations, is_signalled ? 0 : 1);
      return trainer.state().time.batch;
    };
    EXPECT_EQ(run(true), 4);
    EXPECT_EQ(CheckpointManager(path("run"), {}).steps(), (std::vector<std::int64_t>{4}));
    EXPECT_EQ(run(false), 9) << "goes on";
  }
}

TEST_F(TrainerRuns, SignalsAreTheProgramsOtherwise) {
  static int count = 0;
  const auto before = std::signal(SIGTERM, [](int) { ++count; });
  AlteredLoop loop;
  TrainerOptions options = saving(loop, "2ba");
  options.on_signal = OnSignal::save_and_stop;
  EXPECT_EQ(Trainer(options).fit(), FitEnd::finished);
  std::raise(SIGTERM);
  EXPECT_EQ(count, 1);
  std::signal(SIGTERM, before);
  options.save.folder.clear();
  options.resume = false;
  EXPECT_EQ(message_of<ValueError>([&] { return Trainer(options).state().time.batch; }),
            "Trainer: expected a folder for the checkpoint of on_signal, got no save.folder; give .save = "
            "{.folder = "
            "\"run\"}");
}

TEST_F(TrainerRuns, SaysWhyItEnds) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("4ba");
  options.callbacks = {on(Event::batch_end, [](State& state) {
    if (state.time.batch == 2) state.stop_training();
  })};
  Trainer trainer(options);
  EXPECT_EQ(trainer.fit(), FitEnd::stopped);
  EXPECT_EQ(trainer.fit(), FitEnd::finished);
}

// --- time

TEST_F(TrainerRuns, ATimeLimitCountsEvaluationsAtOnce) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("1sec");
  options.eval_loader = loop.batches;
  options.eval_interval = "1ba";
  options.metrics = {{"accuracy", Accuracy()}};
  options.callbacks = {on(Event::eval_start, [](State&) { ::usleep(1'100'000); })};
  Trainer trainer(options);
  trainer.fit();
  EXPECT_EQ(trainer.state().time.batch, 1);
}

// --- the bar

TEST_F(TrainerRuns, TheBarLivesInTheSecondFit) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("1ep");
  options.progress_bar = true;
  ::testing::internal::CaptureStderr();
  {
    Trainer trainer(options);
    trainer.fit();
    trainer.fit("5ba");
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(" 12/12 "), std::string::npos) << text;
  EXPECT_NE(text.find(" 13/17 "), std::string::npos) << text;
  EXPECT_NE(text.find(" 17/17 "), std::string::npos) << text;
}

// --- lines that say what to do

TEST_F(TrainerRuns, ABatchNormOfOneSample) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("1ba");
  options.microbatch = 1;
  EXPECT_EQ(
      message_of<ValueError>([&] { return Trainer(options).fit(); }),
      "batch_norm: expected more than one value per channel for training, got [1, 16] in BatchNorm1d '1'; "
      "one value "
      "less its mean is always 0: make batches larger or drop the last one, and over several processes call "
      "dist::convert_sync_batchnorm(model)");
}

TEST_F(TrainerRuns, AnEvaluationOverNoBatches) {
  AlteredLoop loop;
  Trainer trainer(loop.trainer("1ba"));
  const std::vector<data::Example> none;
  EXPECT_EQ(message_of<ValueError>([&] { return trainer.eval(none); }),
            "Trainer::eval: expected a loader with at least one batch, got none; give it samples");
  EXPECT_EQ(message_of<ValueError>([&] { return evaluate(*loop.net, none, {}); }),
            "evaluate: expected a loader with at least one batch, got none; give it samples");
}

TEST_F(TrainerRuns, ProcessesThatTrainAlone) {
  const CaughtWarnings warnings;
  AlteredLoop loop;
  ASSERT_EQ(::setenv("OMPI_COMM_WORLD_RANK", "0", 1), 0);
  ASSERT_EQ(::setenv("OMPI_COMM_WORLD_SIZE", "4", 1), 0);
  ASSERT_EQ(::setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1), 0);
  ASSERT_EQ(::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1), 0);
  const Trainer trainer(loop.trainer("1ba"));
  for (const char* name : {"RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"})
    ::unsetenv((std::string("OMPI_COMM_WORLD_") + name).c_str());
  EXPECT_EQ(warnings.text_of("trainer_parallel"),
            "Trainer: expected .parallel in processes that were started together (OMPI_COMM_WORLD_RANK), got "
            "none, so "
            "each trains alone on all data; give .parallel = dist::data_parallel()");
}

TEST_F(TrainerRuns, MixedTargets) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("1ba", {algorithms::MixUp({.num_classes = 4})});
  options.callbacks = {callbacks::TrainMetrics({{"accuracy", Accuracy()}})};
  EXPECT_NE(message_of<CallbackError>([&] {
              Trainer(options).fit();
              return 0;
            })
                .find("Accuracy: expected targets that are classes: integers or bools, got probabilities [8, "
                      "4], as MixUp "
                      "and CutMix make them; use it in evaluations, or give their argmax(1)"),
            std::string::npos);
  loop.batches.front().target.narrow(0, 2, 1).fill_(-100);
  const auto text_with = [&](AnyCallback algorithm) {
    return message_of<CallbackError>([&] {
      Trainer(loop.trainer("1ba", {std::move(algorithm)})).fit();
      return 0;
    });
  };
  EXPECT_NE(text_with(algorithms::MixUp({.num_classes = 4})).find("as it knows no ignore_index"),
            std::string::npos);
  EXPECT_NE(text_with(algorithms::LabelSmoothing()).find("CrossEntropyLoss({.label_smoothing = 0.1})"),
            std::string::npos);
}

// --- update_bn

TEST_F(TrainerRuns, StatisticsOfBatchNormsAnew) {
  AlteredLoop loop;
  static_cast<void>((*loop.net)[3].replace(nn::Identity()));
  const auto& norm = loop.net->at<nn::BatchNorm1d>(1);
  loop.net->eval();
  update_bn(*loop.net, loop.batches);
  EXPECT_FALSE(norm.is_training());
  EXPECT_EQ(norm.momentum(), 0.1);
  EXPECT_EQ(norm.num_batches_tracked->item<std::int64_t>(), 12);
  // By hand: the mean of the batches' means and variances.
  Tensor mean, variance;
  for (const data::Example& batch : loop.batches) {
    const NoGrad no_grad;
    const Tensor h = loop.net->at<nn::Layer>(0)(batch.data);
    const Tensor m = h.mean(0), v = var(h, 0);
    mean = mean.defined() ? mean + m : m;
    variance = variance.defined() ? variance + v : v;
  }
  EXPECT_LT((mean / 12 - norm.running_mean).abs().max().item(), 1e-6);
  EXPECT_LT((variance / 12 - norm.running_var).abs().max().item(), 1e-6);
  EXPECT_EQ(message_of<ValueError>([&] {
              update_bn(*loop.net, std::vector<data::Example>());
              return 0;
            }),
            "update_bn: expected a loader with at least one batch, got none; give it samples");
}

}  // namespace
}  // namespace mezzo::train
