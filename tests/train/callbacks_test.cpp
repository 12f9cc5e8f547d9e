// Callbacks that log: what stands in the log beside what a loop by hand would count. None changes a bit of
// the training.
#include "mezzo/train/callbacks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/altered_loop.h"

namespace mezzo::train {
namespace {

using test::message_of;

/// Remembers each value of a name by its step.
class Values final : public Sink {
 public:
  explicit Values(std::int64_t every = 1) : Sink(every) {}
  void write(const LogRecord& record) override {
    for (const LogScalar& value : record.values) values[std::string(value.name)][record.step] = value.value;
  }
  [[nodiscard]] std::vector<double> of(const std::string& name) const {
    std::vector<double> list;
    const auto found = values.find(name);
    if (found == values.end()) return list;
    for (const auto& [step, value] : found->second) list.push_back(value);
    return list;
  }
  std::map<std::string, std::map<std::int64_t, double>> values;
};

struct Watched {
  explicit Watched(const AlteredLoopOptions& options = {}) : loop(options) {}
  /// Trains with callbacks, and returns what was logged.
  std::shared_ptr<Values> train(Time duration, std::vector<AnyCallback> callbacks,
                                const std::function<void(TrainerOptions&)>& change = {}) {
    auto values = std::make_shared<Values>();
    TrainerOptions options = loop.trainer(duration);
    options.callbacks = std::move(callbacks);
    options.sinks = {values};
    if (change) change(options);
    Trainer(options).fit();
    return values;
  }
  AlteredLoop loop;
};

TEST(SpeedMonitors, CountTrainingTimeOnly) {
  Watched watched({.accumulate = 2});
  double now = 1000;
  const Clock clock = [&now] { return now; };
  const auto values = watched.train(
      "5ba", {callbacks::SpeedMonitor({.window = 2, .clock = clock})}, [&](TrainerOptions& options) {
        // Before the monitor: algorithms run first. The third batch takes longer.
        options.algorithms = {
            on(Event::batch_end, [&](State& state) { now += state.time.batch == 3 ? 6 : 2; }),
            on(Event::eval_batch_start, [&](State&) { now += 50; })};
        options.eval_loader = watched.loop.batches;
        options.eval_interval = "1ba";
        options.metrics = {{"accuracy", Accuracy()}};
        options.tokens = [](const data::Example& batch) { return 10 * batch.data.size(0); };
      });
  // 16 samples in each batch, of 2 seconds; rates over the last two.
  EXPECT_EQ(values->of("speed/samples_per_second"), (std::vector<double>{8, 8, 4, 4, 8}));
  EXPECT_EQ(values->of("speed/tokens_per_second"), (std::vector<double>{80, 80, 40, 40, 80}));
  EXPECT_EQ(values->of("speed/batches_per_second"), (std::vector<double>{0.5, 0.5, 0.25, 0.25, 0.5}));
}

TEST(SpeedMonitors, LogTheWaitForTheLoader) {
  double now = 0;
  const Clock clock = [&now] { return now; };
  const auto values =
      Watched({.accumulate = 2})
          .train("3ba", {callbacks::SpeedMonitor({.clock = clock})}, [&](TrainerOptions& options) {
            // Algorithms run first: at after_dataloader this is time that the loader has taken.
            options.algorithms = {on(Event::after_dataloader, [&](State&) { now += 0.25; }),
                                  on(Event::before_forward, [&](State&) { now += 3; })};
          });
  EXPECT_EQ(values->of("speed/loader_wait"), (std::vector<double>{0.5, 0.5, 0.5}));
}

TEST(SpeedMonitors, LogNoTokensWhereNoneAreCounted) {
  const auto values = Watched().train("3ba", {callbacks::SpeedMonitor()});
  EXPECT_EQ(values->values.count("speed/tokens_per_second"), 0U);
  EXPECT_GT(values->of("speed/samples_per_second").back(), 0);
}

TEST(MemoryMonitors, LogWhatTheAllocatorHolds) {
  std::map<std::int64_t, MemoryStats> stats;
  const auto values =
      Watched().train("6ba", {callbacks::MemoryMonitor({.every = 2})}, [&](TrainerOptions& options) {
        options.algorithms = {on(Event::batch_end, [&](State& state) {
          if (state.time.batch % 2 == 0) stats[state.time.batch] = memory_stats(state.device);
        })};
      });
  ASSERT_EQ(stats.size(), 3U);
  for (const auto& [step, stat] : stats) {
    EXPECT_EQ(values->values["memory/allocated"].at(step), static_cast<double>(stat.current));
    EXPECT_EQ(values->values["memory/peak_allocated"].at(step), static_cast<double>(stat.peak));
    EXPECT_EQ(values->values["memory/reserved"].at(step), static_cast<double>(stat.reserved));
    EXPECT_EQ(values->values["memory/cached"].at(step), static_cast<double>(stat.reserved - stat.current));
  }
  EXPECT_EQ(values->of("memory/allocated").size(), 3U);
  if (process_memory().resident > 0) {
    EXPECT_GT(values->of("memory/process").back(), 1e6);
    EXPECT_GE(values->of("memory/process_peak").back(), values->of("memory/process").back());
  }
}

TEST(LRMonitors, LogTheRateOfEachGroup) {
  for (const bool has_schedule : {false, true}) {
    AlteredLoop loop;
    optim::SGD sgd(std::vector<optim::ParamGroup<optim::SGDOptions>>{
        {loop.net->at<nn::Layer>(0).named_parameters(), {.lr = 0.1, .momentum = 0.9}},
        {loop.net->at<nn::Layer>(6).named_parameters(), {.lr = 0.01, .momentum = 0.5}}});
    auto values = std::make_shared<Values>();
    TrainerOptions options = loop.trainer("3ba");
    options.optimizer = sgd;
    if (has_schedule) options.schedule = optim::StepLROptions{.step_size = 1, .gamma = 0.5};
    options.callbacks = {callbacks::LRMonitor({.momentum = true})};
    options.sinks = {values};
    Trainer(options).fit();
    const double factor = has_schedule ? 0.5 : 1;
    EXPECT_EQ(values->of("lr/group0"), (std::vector<double>{0.1, 0.1 * factor, 0.1 * factor * factor}));
    EXPECT_EQ(values->of("lr/group1"), (std::vector<double>{0.01, 0.01 * factor, 0.01 * factor * factor}));
    EXPECT_EQ(values->of("momentum/group0"), (std::vector<double>{0.9, 0.9, 0.9}));
    EXPECT_EQ(values->of("momentum/group1"), (std::vector<double>{0.5, 0.5, 0.5}));
    EXPECT_EQ(values->of("lr"), values->of("lr/group0"));
  }
}

// --- TrainMetrics

callbacks::TrainMetrics accuracy_of_training() { return callbacks::TrainMetrics({{"accuracy", Accuracy()}}); }

/// The running accuracy of each step, which starts anew after 12 batches, by hand.
std::vector<double> accuracy_by_hand(const AlteredLoopOptions& options, int steps,
                                     std::optional<std::int64_t> microbatch_from_step_1 = {}) {
  AlteredLoop loop(options);
  std::vector<double> result;
  std::int64_t right = 0, samples = 0;
  loop.run(steps, {.before_step =
                       [&](int step) {
                         if (step * options.accumulate % 12 == 0) right = samples = 0;
                         if (step == 1 && microbatch_from_step_1)
                           loop.options.microbatch = microbatch_from_step_1;
                       },
                   .target =
                       [&](const Tensor& target, const Tensor& output) {
                         right += eq(output.argmax(1), target).sum().item<std::int64_t>();
                         samples += target.size(0);
                         return target;
                       },
                   .after_step =
                       [&](int, const amp::StepResult&) {
                         result.push_back(static_cast<double>(right) / static_cast<double>(samples));
                       }});
  return result;
}

TEST(TrainingMetrics, RunOverTheEpoch) {
  for (const AlteredLoopOptions& options : altered_loop_ways()) {
    const int steps = static_cast<int>(18 / options.accumulate);
    Watched watched(options);
    const auto values = watched.train(Time(steps, TimeUnit::batch), {accuracy_of_training()});
    EXPECT_EQ(values->of("train/accuracy"), accuracy_by_hand(options, steps));
    AlteredLoop plain(options);
    plain.run(steps, {});
    EXPECT_EQ(watched.loop.bits(), plain.bits());
  }
}

TEST(TrainingMetrics, ForgetATryThatRanOutOfMemory) {
  for (const int first_failing : {0, 1}) {  // the first batch, or one when something was counted before
    Watched watched;
    int calls_of_8 = 0, calls_of_4 = 0;
    const auto values = watched.train("5ba", {accuracy_of_training()}, [&](TrainerOptions& options) {
      options.microbatch = "auto";
      options.forward = [&](const data::Example& batch) {
        const std::int64_t samples = batch.data.size(0);
        // With parts of 4 the second one fails, when the first one was counted.
        if ((samples == 8 && calls_of_8++ == first_failing) || (samples == 4 && ++calls_of_4 == 2))
          throw OutOfMemoryError("forward", "memory", "none", "");
        return (*watched.loop.net)(batch.data);
      };
    });
    EXPECT_EQ(calls_of_4, 2);
    EXPECT_EQ(values->of("train/accuracy"),
              first_failing == 0 ? accuracy_by_hand({.microbatch = 2}, 5) : accuracy_by_hand({}, 5, 2));
  }
}

/// How many samples were counted.
class SampleCount final : public Metric {
 public:
  SampleCount() : Metric("SampleCount", "", {{Shape{}, DType::f64}}) {}
  void update(const Tensor& output, const Tensor& /*target*/) {
    count(output, [&] { sum(0).add_(static_cast<double>(output.size(0))); });
  }

 private:
  [[nodiscard]] Tensor result(const std::vector<Tensor>& sums) const override { return sums[0]; }
};

TEST(TrainingMetrics, CountTheLastEvaluationOfAStep) {
  Watched watched({.microbatch = 3});
  optim::SAM sam(*watched.loop.optimizer);
  const auto values = watched.train("14ba", {callbacks::TrainMetrics({{"samples", SampleCount()}})},
                                    [&](TrainerOptions& options) { options.optimizer = sam; });
  EXPECT_EQ(values->of("train/samples"),
            (std::vector<double>{8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 8, 16}));
}

TEST(CallbackRefusals, OptionsThatMakeNoSense) {
  using namespace callbacks;
  EXPECT_EQ(message_of<ValueError>([] { EarlyStopping({.patience = 0}); }),
            "EarlyStopping: expected a patience of at least 1, got 0; 3 evaluations are usual");
  EXPECT_THROW(EarlyStopping({.min_delta = -1}), ValueError);
  EXPECT_THROW(EarlyStopping({.min_delta = NAN}), ValueError);
  EXPECT_THROW(SpeedMonitor({.window = 0}), ValueError);
  EXPECT_THROW(MemoryMonitor({.every = 0}), ValueError);
  EXPECT_THROW(TrainMetrics({}), ValueError);
  EXPECT_THROW(AnomalyHunt({.patience = 0}), ValueError);
  EXPECT_THROW(AnomalyHunt({.every = 0}), ValueError);
}

}  // namespace
}  // namespace mezzo::train
