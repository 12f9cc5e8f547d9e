// What a trainer counts: at which batches things are due, which checkpoint is the best, whose files a folder
// holds, where a training that was stopped or failed goes on.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <stdexcept>

#include "mezzo/tests/data/temporary_folder.h"
#include "mezzo/tests/train/altered_loop.h"

namespace mezzo::train {
namespace {

using Steps = std::vector<std::int64_t>;

/// The batches behind which an event came.
AnyCallback noting(Event event, Steps& steps) {
  return on(event, [&steps](State& state) { steps.push_back(state.time.batch); });
}

class TrainerCounts : public data::TemporaryFolder {
 protected:
  /// Options of a training that saves after each batch.
  [[nodiscard]] TrainerOptions saving(AlteredLoop& loop, Time end) const {
    TrainerOptions options = loop.trainer(end);
    options.save = {.folder = path("run"), .interval = "1ba", .keep_last = 100};
    return options;
  }
  [[nodiscard]] Steps saved() const { return CheckpointManager(path("run"), {}).steps(); }
};

// --- shares of a duration

TEST(TimeShares, AreDueWhereTheirDecimalNumbersAre) {
  for (const std::int64_t whole : {10, 100, 30, 7, 1000}) {
    for (const int parts : {2, 3, 4, 5, 7, 10, 20, 50}) {
      const Time interval(number_text(1.0 / parts) + "dur");
      Steps due, want;
      for (std::int64_t batch = 1; batch <= whole; ++batch) {
        const auto share = [&](std::int64_t b) {
          return static_cast<double>(b) / static_cast<double>(whole);
        };
        if (is_due(interval, share(batch - 1), share(batch))) due.push_back(batch);
        if (batch * parts / whole > (batch - 1) * parts / whole) want.push_back(batch);
      }
      EXPECT_EQ(due, want) << parts << " parts of " << whole;
    }
  }
}

TEST(TimeShares, OfWholeUnitsNothingIsRoundedUp) {
  EXPECT_FALSE(is_due("1000000tok", 0, 999999));
  EXPECT_TRUE(is_due("1000000tok", 999999, 1000000));
  EXPECT_FALSE(is_due("3ba", 9007199254740989.0, 9007199254740990.0 - 1));
}

TEST_F(TrainerCounts, EvaluationsAtShares) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("10ba");
  Steps steps;
  options.eval_loader = loop.batches;
  options.metrics = {{"accuracy", Accuracy()}};
  options.eval_interval = "0.1dur";
  options.callbacks = {noting(Event::eval_end, steps)};
  Trainer(options).fit();
  EXPECT_EQ(steps, (Steps{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

// --- the best checkpoint

/// Evaluates to these numbers, one after the other.
EvalMetric scores(const std::shared_ptr<std::vector<double>>& values) {
  return {"score", Mean(), [values](Mean& mean, const Tensor&, const data::Example&) {
            mean.reset();
            mean.update(values->front());
          }};
}

TEST_F(TrainerCounts, AMetricBelongsToTheWeightsThatWereEvaluated) {
  for (const char* eval : {"1ep", "2ba", "3ba", "0.25dur"}) {
    for (const char* save : {"1ba", "2ba", "3ba", "1ep"}) {
      std::filesystem::remove_all(path("run"));
      AlteredLoop loop;
      loop.batches.resize(4);
      TrainerOptions options = loop.trainer("3ep");
      auto values = std::make_shared<std::vector<double>>(1, 0);
      std::map<std::int64_t, double> of_step;
      std::set<std::int64_t> files;
      options.eval_loader = loop.batches;
      options.eval_interval = eval;
      options.metrics = {scores(values)};
      options.save = {.folder = path("run"), .interval = save, .keep_last = 1, .metric = "score"};
      options.algorithms = {on(Event::eval_start, [&](State& state) {
        values->front() =
            static_cast<double>((state.time.batch * 7) % 5) + 0.01 * static_cast<double>(state.time.batch);
        of_step[state.time.batch] = values->front();
      })};
      Trainer trainer(options);
      trainer.fit();
      const Steps steps = saved();
      // Of the steps that were evaluated and saved the one with the lowest score is there.
      const auto is_saved = [&](std::int64_t step) {
        const std::string unit(save);
        if (step == 12) return true;
        return unit == "1ep" ? step % 4 == 0 : step % (unit[0] - '0') == 0;
      };
      std::int64_t best = -1;
      for (const auto& [step, score] : of_step) {
        if (is_saved(step) && (best < 0 || score <= of_step.at(best))) best = step;
      }
      EXPECT_NE(std::find(steps.begin(), steps.end(), best), steps.end())
          << eval << " " << save << " " << best;
      EXPECT_EQ(std::filesystem::read_symlink(path("run/best.safetensors")).string(),
                std::filesystem::path(CheckpointManager(path("run"), {}).path_of(best)).filename().string())
          << eval << " " << save;
    }
  }
}

// --- folders

TEST_F(TrainerCounts, ANewRunInAUsedFolderSetsTheOtherOnesFilesAside) {
  {
    AlteredLoop loop;
    Trainer(saving(loop, "6ba")).fit();
  }
  ASSERT_EQ(saved(), (Steps{1, 2, 3, 4, 5, 6}));
  AlteredLoop loop;
  TrainerOptions options = saving(loop, "4ba");
  options.save.keep_last = 2;
  Trainer second(options);
  EXPECT_EQ(saved().size(), 6U) << "nothing happens before it saves";
  second.fit();
  EXPECT_EQ(saved(), (Steps{3, 4}));
  EXPECT_EQ(CheckpointManager(path("run/old-1"), {}).steps(), (Steps{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(std::filesystem::read_symlink(path("run/latest.safetensors")).string(),
            "step-000000000004.safetensors");
}

TEST_F(TrainerCounts, GoingBackGivesUpWhatLiesBehind) {
  AlteredLoop loop;
  Trainer trainer(saving(loop, "8ba"));
  trainer.fit();
  trainer.load_checkpoint(CheckpointManager(path("run"), {}).path_of(4));
  EXPECT_EQ(saved().size(), 8U) << "a look at an old checkpoint changes nothing";
  trainer.fit("2ba");
  EXPECT_EQ(saved(), (Steps{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(CheckpointManager(path("run/old-1"), {}).steps(), (Steps{5, 6, 7, 8}));
  AlteredLoop again;
  TrainerOptions options = saving(again, "8ba");
  options.resume = true;
  EXPECT_EQ(Trainer(options).state().time.batch, 6);
}

// --- the end

TEST_F(TrainerCounts, ATrainingThatWasStoppedStaysSo) {
  const auto options_of = [&](AlteredLoop& loop) {
    TrainerOptions options = saving(loop, "10ba");
    options.resume = true;
    options.callbacks = {on(Event::batch_end, [](State& state) {
      if (state.time.batch == 3) state.stop_training();
    })};
    return options;
  };
  {
    AlteredLoop loop;
    Trainer(options_of(loop)).fit();
  }
  AlteredLoop loop;
  Trainer trainer(options_of(loop));
  trainer.fit();
  EXPECT_EQ(trainer.state().time.batch, 3);
  trainer.fit("2ba");  // is asked for anew
  EXPECT_EQ(trainer.state().time.batch, 5);
}

TEST_F(TrainerCounts, AnotherLoaderDecidesNothing) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("3ba");
  auto values = std::make_shared<std::vector<double>>(1, 5.0);
  options.eval_loader = loop.batches;
  options.eval_interval = "1ba";
  options.metrics = {scores(values)};
  callbacks::EarlyStopping stopping({.metric = "score", .patience = 2});
  options.callbacks = {std::move(stopping)};
  options.algorithms = {on(Event::eval_start, [&](State&) { values->front() -= 1; })};
  Trainer trainer(options);
  const std::vector<data::Example> other(loop.batches.begin(), loop.batches.begin() + 1);
  for (int i = 0; i < 5; ++i) {
    values->front() = -100;
    static_cast<void>(trainer.eval(other));
  }
  EXPECT_TRUE(trainer.state().eval_results.empty());
  values->front() = 5;
  trainer.fit();
  EXPECT_EQ(trainer.state().time.batch, 3);
}

TEST_F(TrainerCounts, AnotherLoaderThatFailsLeavesTheResults) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("1ba");
  options.eval_loader = loop.batches;
  options.metrics = {{"accuracy", Accuracy()}};
  Trainer trainer(options);
  trainer.fit();
  const EvalResults before = trainer.state().eval_results;
  ASSERT_EQ(before.size(), 2U);
  EXPECT_THROW(static_cast<void>(trainer.eval(std::vector<data::Example>())), ValueError);
  EXPECT_EQ(trainer.state().eval_results, before);
}

TEST_F(TrainerCounts, TheEvalLoaderByAnotherNameIsItself) {
  AlteredLoop loop;
  data::DataLoader loader(data::TensorDataset(loop.batches[0].data, loop.batches[0].target),
                          {.batch_size = 4});
  TrainerOptions options = loop.trainer("1ba");
  options.eval_loader = loader;
  options.eval_interval = 0;
  options.metrics = {{"accuracy", Accuracy()}};
  Trainer trainer(options);
  EXPECT_EQ(trainer.eval(loader), trainer.state().eval_results);
}

// --- exceptions

/// Fails once, at this batch.
AnyCallback failing(Event event, std::int64_t batch, bool& failed) {
  return on(event, [batch, &failed](State& state) {
    if (state.time.batch != batch || std::exchange(failed, true)) return;
    throw std::runtime_error("once");
  });
}

std::vector<std::vector<double>> weights_of(const AlteredLoop& loop) {
  std::vector<std::vector<double>> values;
  for (const Tensor& parameter : loop.net->parameters()) values.push_back(parameter.to_vector<double>());
  return values;
}

/// Inputs or targets of all batches.
std::vector<Tensor> parts_of(const AlteredLoop& loop, bool inputs) {
  std::vector<Tensor> parts;
  for (const data::Example& batch : loop.batches) parts.push_back(inputs ? batch.data : batch.target);
  return parts;
}

TEST_F(TrainerCounts, AStepThatFailedIsTheNextOne) {
  for (const amp::Precision precision : {amp::Precision::fp32, amp::Precision::amp_fp16}) {
    for (const Event event : {Event::before_dataloader, Event::after_dataloader, Event::batch_start,
                              Event::before_forward, Event::after_train_batch}) {
      AlteredLoop whole({.precision = precision}), broken({.precision = precision});
      // Without dropout, whose draws a step that is made again repeats with other numbers.
      for (AlteredLoop* loop : {&whole, &broken}) static_cast<void>((*loop->net)[3].replace(nn::Identity()));
      const auto train = [&](AlteredLoop& loop, bool fails) {
        TrainerOptions options = loop.trainer("2ep");
        bool failed = !fails;
        options.callbacks = {failing(event, 5, failed), on(Event::after_train_batch, [](State&) {})};
        Trainer trainer(options);
        if (fails) {
          EXPECT_THROW(trainer.fit(), CallbackError);
        }
        trainer.fit();
        EXPECT_EQ(trainer.state().time.batch, 24) << to_string(event);
      };
      train(whole, false);
      train(broken, true);
      EXPECT_EQ(weights_of(whole), weights_of(broken)) << to_string(event);
    }
  }
}

TEST_F(TrainerCounts, ACheckpointWrittenAfterAFailedStepGoesOnWithIt) {
  const std::string file = path("checkpoint.safetensors");
  AlteredLoop whole, broken, resumed;
  for (AlteredLoop* loop : {&whole, &broken, &resumed})
    static_cast<void>((*loop->net)[3].replace(nn::Identity()));
  // With a DataLoader, which has a place.
  const auto train = [&](AlteredLoop& loop, const char* way) {
    data::DataLoader loader(data::TensorDataset(cat(parts_of(loop, true)), cat(parts_of(loop, false))),
                            {.batch_size = 8, .shuffle = true, .seed = 3});
    TrainerOptions options = loop.trainer("2ep");
    options.train_loader = loader;
    bool failed = way != std::string("fails");
    options.callbacks = {failing(Event::before_forward, 5, failed)};
    if (way == std::string("resumes")) options.load = file;
    Trainer trainer(options);
    if (way != std::string("fails")) {
      trainer.fit();
      EXPECT_EQ(trainer.state().time.batch, 24);
      return;
    }
    EXPECT_THROW(trainer.fit(), CallbackError);
    trainer.save_checkpoint(file);
  };
  train(whole, "whole");
  train(broken, "fails");
  train(resumed, "resumes");
  EXPECT_EQ(weights_of(whole), weights_of(resumed));
}

TEST_F(TrainerCounts, ACheckpointThatIsLoadedBeforeAStepTrainsItsOwnBatch) {
  for (const Event event : {Event::before_dataloader, Event::after_dataloader, Event::batch_start}) {
    AlteredLoop whole, other;
    const auto train = [&](AlteredLoop& loop, bool goes_back) {
      static_cast<void>((*loop.net)[3].replace(nn::Identity()));
      TrainerOptions options = loop.trainer("12ba");
      const std::string file = path("checkpoint.safetensors");
      Trainer* self = nullptr;
      bool is_back = !goes_back;
      options.callbacks = {on(event, [&](State& state) {
        if (state.time.batch == 2 && !is_back) self->save_checkpoint(file);
        if (state.time.batch == 7 && !std::exchange(is_back, true)) self->load_checkpoint(file);
      })};
      Trainer trainer(options);
      self = &trainer;
      trainer.fit();
      EXPECT_EQ(trainer.state().time.batch, 12);
    };
    train(whole, false);
    train(other, true);
    EXPECT_EQ(weights_of(whole), weights_of(other)) << to_string(event);
  }
}

TEST_F(TrainerCounts, AnEvaluationThatFailsAtItsEndEndsForAllAlgorithms) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("2ba");
  options.eval_loader = loop.batches;
  options.eval_interval = "1ba";
  options.metrics = {{"accuracy", Accuracy()}};
  bool failed = false;
  auto ema = std::make_shared<algorithms::EMA>(optim::EMAOptions{.decay = 0.5});
  options.algorithms = {failing(Event::eval_end, 1, failed), ema};
  Trainer trainer(options);
  EXPECT_THROW(trainer.fit(), CallbackError);
  EXPECT_FALSE(optim::holds_average(loop.net->parameters()[0])) << "the weights are there again";
}

// --- loaders

TEST_F(TrainerCounts, OneLoaderForTrainingAndEvaluation) {
  AlteredLoop loop;
  loop.batches.resize(4);
  TrainerOptions options = loop.trainer("2ep");
  const AnyLoader both = loop.batches;
  options.train_loader = both;
  options.eval_loader = both;
  options.eval_interval = "1ba";
  options.metrics = {{"accuracy", Accuracy()}};
  Steps steps;
  options.callbacks = {noting(Event::eval_end, steps)};
  Trainer trainer(options);
  trainer.fit();
  EXPECT_EQ(trainer.state().time.batch, 8);
  EXPECT_EQ(steps, (Steps{1, 2, 3, 4, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace mezzo::train
