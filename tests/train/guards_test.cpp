// Callbacks that end a training: EarlyStopping, AnomalyHunt.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/altered_loop.h"
#include "mezzo/tests/train/log_files.h"

namespace mezzo::train {
namespace {

using callbacks::AnomalyHunt;
using callbacks::EarlyStopping;
using test::message_of;

// --- EarlyStopping

/// Evaluates after each batch, with these results of the metric "score".
TrainerOptions scored(AlteredLoop& loop, std::vector<double> scores, EarlyStopping stopping) {
  TrainerOptions options = loop.trainer("12ba", {on(Event::eval_end, [scores](State& state) {
                                          state.eval_results["score"] =
                                              scores.at(static_cast<std::size_t>(state.time.batch));
                                        })});
  options.eval_loader = loop.batches;
  options.eval_interval = "1ba";
  options.metrics = {{"accuracy", Accuracy()}};
  options.callbacks = {std::move(stopping)};
  return options;
}

/// The batch at which a training with these scores, from batch 1 on, has stopped.
std::int64_t stopped_at(std::vector<double> scores, const callbacks::EarlyStoppingOptions& options) {
  AlteredLoop loop;
  scores.insert(scores.begin(), 0);
  scores.resize(13, scores.back());
  Trainer trainer(scored(loop, scores, EarlyStopping(options)));
  trainer.fit();
  return trainer.state().time.batch;
}

TEST(StoppingEarly, WhenTheMetricGetsNoBetter) {
  EXPECT_EQ(stopped_at({3, 2, 1, 1, 1, 1}, {.metric = "score", .patience = 2}), 5);
  EXPECT_EQ(stopped_at({3, 2, 1, 2, 0.5, 1, 1}, {.metric = "score", .patience = 2}), 7);
  EXPECT_EQ(stopped_at({3, 2.95, 2.9, 2.89}, {.metric = "score", .patience = 2, .min_delta = 0.2}), 3);
  EXPECT_EQ(stopped_at({1, 2, 3, 3, 3}, {.metric = "score", .patience = 1, .mode = Best::highest}), 4);
  EXPECT_EQ(stopped_at({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
                       {.metric = "score", .patience = 1, .mode = Best::highest}),
            12);
}

TEST(StoppingEarly, TakesNaNForNoBetter) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(stopped_at({kNaN, kNaN, kNaN, kNaN}, {.metric = "score", .patience = 3}), 3);
  EXPECT_EQ(stopped_at({kNaN, 2, kNaN, 1, kNaN, kNaN}, {.metric = "score", .patience = 2}), 6);
}

TEST(StoppingEarly, GoesOnWithACheckpoint) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("mezzo-early-" + std::to_string(::getpid()))).string();
  const std::vector<double> scores{0, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
  const auto options_of = [&](AlteredLoop& loop) {
    return scored(loop, scores, EarlyStopping({.metric = "score", .patience = 4}));
  };
  {
    AlteredLoop loop;
    Trainer first(options_of(loop));
    first.fit("4ba");
    first.eval();  // the same batch again does not count
    first.save_checkpoint(path);
  }
  AlteredLoop loop;
  TrainerOptions options = options_of(loop);
  options.load = path;
  Trainer second(options);
  second.fit();
  EXPECT_EQ(second.state().time.batch, 6);
  std::filesystem::remove(path);
}

TEST(StoppingEarly, RefusesAMetricThatIsNotThere) {
  AlteredLoop loop;
  Trainer trainer(scored(loop, std::vector<double>(13), EarlyStopping({.metric = "f1"})));
  EXPECT_NE(message_of<CallbackError>([&] { trainer.fit(); })
                .find("EarlyStopping: expected a metric of the evaluations: accuracy, loss, score, got f1; "
                      "name one of these, or add it to the trainer's metrics"),
            std::string::npos);
}

TEST(Metrics, OfANumberPerClassAreResultsByClass) {
  const test::CaughtWarnings warnings;
  const auto confusion = std::make_shared<ConfusionMatrix>(4);
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("1ba");
  options.eval_loader = loop.batches;
  options.metrics = {
      {"accuracy", Accuracy()}, {"recall", Recall(4, {.average = Average::none})}, {"confusion", confusion}};
  options.callbacks = {callbacks::TrainMetrics({{"recall", Recall(4, {.average = Average::none})}})};
  Trainer trainer(options);
  trainer.fit();
  const EvalResults results = trainer.state().eval_results;
  const std::vector<double> counts = confusion->compute().to_vector<double>();
  ASSERT_EQ(counts.size(), 16U);
  double right = 0, all = 0;
  for (std::size_t target = 0; target < 4; ++target) {
    double row = 0;
    for (std::size_t prediction = 0; prediction < 4; ++prediction) row += counts[4 * target + prediction];
    const double diagonal = counts[5 * target];
    EXPECT_DOUBLE_EQ(results.at("recall/" + std::to_string(target)), row == 0 ? 0 : diagonal / row);
    right += diagonal;
    all += row;
  }
  ASSERT_GT(all, 0);
  EXPECT_DOUBLE_EQ(results.at("accuracy"), right / all);
  EXPECT_EQ(results.size(), 6U) << "accuracy, loss, and recall of 4 classes";
  EXPECT_EQ(
      warnings.texts(),
      std::vector<std::string>{
          "EvalMetric: expected a metric of one number, or one per class, got ConfusionMatrix 'confusion' of "
          "shape [4, 4], which is not logged; read its compute()"});
}

TEST(Metrics, OfTooManyClassesAreRefusedAsResults) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("1ba");
  options.eval_loader = loop.batches;
  options.metrics = {{"recall", Recall(2000, {.average = Average::none})}};
  EXPECT_NE(message_of<Error>([&] { Trainer(options).fit(); })
                .find("Recall: expected at most 1024 classes to log as 'recall', got 2000; take an average, "
                      "or update "
                      "the metric in a loop and read its compute()"),
            std::string::npos);
}

TEST(Metrics, ThatChooseTheBestCheckpointAreOneNumber) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("mezzo-several-" + std::to_string(::getpid()));
  const auto train = [&](const std::string& metric) {
    AlteredLoop loop;
    TrainerOptions options = loop.trainer("2ba");
    options.eval_loader = loop.batches;
    options.eval_interval = "1ba";
    options.metrics = {{"recall", Recall(4, {.average = Average::none})}};
    options.save = {.folder = folder.string(), .interval = "1ba", .metric = metric};
    Trainer(options).fit();
  };
  EXPECT_EQ(message_of<Error>([&] { train("recall"); }),
            "Trainer: expected a metric of the evaluations: loss, recall/0, recall/1, recall/2, recall/3, "
            "got recall; "
            "name one of these, or add it to the trainer's metrics");
  std::filesystem::remove_all(folder);
  EXPECT_NO_THROW(train("recall/1"));
  EXPECT_TRUE(std::filesystem::exists(folder));
  std::filesystem::remove_all(folder);
}

// --- AnomalyHunt

/// log(x + 1e3), but for log(x) from call `from` to call `to`: NaN where x is negative.
struct Faulty final : nn::Layer {
  Tensor forward(const Tensor& x) override {
    ++calls;
    return is_training() && calls >= from && calls <= to ? log(x) : log(x + 1000.0);
  }
  int calls = 0, from = 0, to = 0;
};

/// A training whose layer "1" makes NaN in some steps, counted from 1.
struct FaultyTraining {
  FaultyTraining(amp::Precision precision, int from, int to, AnomalyHunt hunt)
      : net(nn::Linear(6, 16), nn::make<Faulty>(), nn::Linear(16, 4)), sgd(net, {.lr = 0.01}) {
    auto& faulty = dynamic_cast<Faulty&>(net.at<nn::Layer>(1));
    faulty.from = from;
    faulty.to = to;
    options = {.model = net, .loss = nn::CrossEntropyLoss()};
    options.optimizer = sgd;
    options.train_loader = data.batches;
    options.max_duration = "12ba";
    options.precision = precision;
    options.scaler.init_scale = 1024;
    options.callbacks = {std::move(hunt)};
    options.sinks = {memory};
    options.progress_bar = false;
  }
  /// The text of what ends the training.
  std::string refusal() {
    Trainer trainer(options);
    const std::string text = message_of<CallbackError>([&] { trainer.fit(); });
    ended_at = trainer.state().time.batch;
    return text;
  }

  AlteredLoop data;
  nn::Sequential net;
  optim::SGD sgd;
  std::shared_ptr<log_test::Memory> memory = std::make_shared<log_test::Memory>();
  TrainerOptions options;
  std::int64_t ended_at = 0;
};

TEST(HuntingAnomalies, NamesParameterOpAndLayerOfSkippedSteps) {
  FaultyTraining training(amp::Precision::amp_fp16, 4, 100, AnomalyHunt({.patience = 3, .every = 1}));
  const std::string text = training.refusal();
  // Steps 4 to 6 are skipped, 7 is watched.
  EXPECT_EQ(training.ended_at, 7);
  EXPECT_NE(
      text.find("AnomalyHunt: expected finite losses and gradients, got 4 steps in a row without, up to "
                "batch 7; first in the gradient of '0.weight'"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("log"), std::string::npos) << text;
  EXPECT_NE(text.find("Faulty '1'"), std::string::npos) << text;
}

TEST(HuntingAnomalies, LooksEveryFewBatches) {
  FaultyTraining training(amp::Precision::amp_fp16, 2, 100, AnomalyHunt({.patience = 3, .every = 5}));
  EXPECT_NE(training.refusal().find("got 5 steps in a row without, up to batch 6"), std::string::npos);
}

TEST(HuntingAnomalies, GoesOnWhereStepsAreFineAgain) {
  for (const int every : {1, 4}) {
    FaultyTraining training(amp::Precision::amp_fp16, 2, 4, AnomalyHunt({.patience = 3, .every = every}));
    Trainer trainer(training.options);
    trainer.fit();
    EXPECT_EQ(trainer.state().time.batch, 12);
    EXPECT_EQ(trainer.state().scaler->steps_skipped(), 3);
    FaultyTraining plain(amp::Precision::amp_fp16, 2, 4, AnomalyHunt());
    plain.options.callbacks.clear();
    Trainer(plain.options).fit();
    EXPECT_EQ(AlteredLoop::bits(training.net.state_dict()), AlteredLoop::bits(plain.net.state_dict()));
  }
}

TEST(HuntingAnomalies, StopsOnALossOfNaNWithoutAScaler) {
  FaultyTraining training(amp::Precision::fp32, 3, 3, AnomalyHunt({.patience = 1, .every = 1}));
  const std::string text = training.refusal();
  EXPECT_EQ(training.ended_at, 4);
  EXPECT_NE(text.find("got 2 steps in a row without, up to batch 4; the parameter '0.weight' is not finite"),
            std::string::npos)
      << text;
}

TEST(HuntingAnomalies, LooksOnceMoreAtTheEnd) {
  FaultyTraining training(amp::Precision::amp_bf16, 10, 100, AnomalyHunt({.patience = 3, .every = 5}));
  EXPECT_NE(training.refusal().find("got 3 steps in a row without, up to batch 12"), std::string::npos);
}

TEST(HuntingAnomalies, MayStopWithoutAnException) {
  FaultyTraining training(amp::Precision::amp_fp16, 2, 100,
                          AnomalyHunt({.patience = 2, .every = 1, .throws = false}));
  Trainer trainer(training.options);
  trainer.fit();
  EXPECT_EQ(trainer.state().time.batch, 4);
  bool is_told = false;
  for (const std::string& record : training.memory->records)
    is_told = is_told || record.find("anomaly: \"AnomalyHunt: expected finite") == 0;
  EXPECT_TRUE(is_told);
}

TEST(HuntingAnomalies, ReadsOncePerInterval) {
  const auto reads = [](bool hunts) {
    AlteredLoop loop({.precision = amp::Precision::amp_fp16});
    TrainerOptions options = loop.trainer("12ba");
    if (hunts) options.callbacks = {AnomalyHunt({.every = 4})};
    Trainer trainer(options);
    const auto before = host_reads();
    trainer.fit();
    return host_reads() - before;
  };
  EXPECT_EQ(reads(true) - reads(false), 12U / 4 + 1);  // and once at the end
}

}  // namespace
}  // namespace mezzo::train
