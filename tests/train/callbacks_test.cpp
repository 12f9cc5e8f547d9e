// Callbacks that log: what stands in the log beside what a loop by hand would count. None changes a bit of
// the training.
#include "mezzo/train/callbacks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "mezzo/core/backend.h"
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

// --- GradientMonitor

/// What the monitors log, by hand: a value per name and step.
struct GradientsByHand {
  std::map<std::string, std::map<std::int64_t, double>> norms;  ///< by layer
  std::map<std::string, std::vector<double>> elements;          ///< by "weights/0.weight 2", say
};

GradientsByHand gradients_by_hand(AlteredLoop& loop, int steps) {
  GradientsByHand result;
  std::int64_t step = 0;
  loop.run(steps, {.gradients = [&] {
             ++step;
             std::map<std::string, double> squares;
             for (const auto& [name, parameter] : loop.net->named_parameters()) {
               const std::string at = name + " " + std::to_string(step);
               result.elements["weights/" + at] = parameter.detach().to_vector<double>();
               const std::vector<double> gradient = parameter.grad().to_vector<double>();
               result.elements["gradients/" + at] = gradient;
               for (const double g : gradient) squares[name.substr(0, 1)] += g * g;
             }
             for (const auto& [layer, sum] : squares)
               result.norms["grad_norm/" + layer][step] = std::sqrt(sum);
           }});
  return result;
}

TEST(GradientMonitors, LogTheNormOfEachLayer) {
  for (const AlteredLoopOptions& way : altered_loop_ways()) {
    AlteredLoop hand(way);
    const GradientsByHand wanted = gradients_by_hand(hand, 6);
    Watched watched(way);
    const auto values = watched.train("6ba", {callbacks::GradientMonitor({.every = 2})});
    EXPECT_EQ(watched.loop.bits(), hand.bits()) << "it watches only";
    EXPECT_EQ(way.init_scale < 1e6, hand.skipped == 0) << "also of steps that are skipped";
    for (const std::string layer : {"grad_norm/0", "grad_norm/1", "grad_norm/4", "grad_norm/6"}) {
      ASSERT_EQ(values->of(layer).size(), 3U);
      for (const std::int64_t step : {2, 4, 6}) {
        const double norm = wanted.norms.at(layer).at(step), got = values->values[layer].at(step);
        if (std::isfinite(norm))
          EXPECT_NEAR(got, norm, 1e-6 * norm) << layer << " " << step;  // rounded to f32
        else
          EXPECT_FALSE(std::isfinite(got)) << layer << " " << step;
      }
    }
  }
}

TEST(GradientMonitors, LeaveOutFrozenLayersAndReadNothing) {
  std::uint64_t reads[2] = {};
  std::shared_ptr<Values> values;
  for (const bool monitors : {false, true}) {
    Watched watched;
    for (const Tensor& parameter : watched.loop.net->at<nn::Layer>(4).parameters())
      parameter.requires_grad_(false);
    std::vector<AnyCallback> callbacks;
    if (monitors) callbacks = {callbacks::GradientMonitor({.every = 1, .histograms = 1})};
    const std::uint64_t before = host_reads();
    values = watched.train("3ba", callbacks);
    reads[monitors ? 1 : 0] = host_reads() - before;
  }
  EXPECT_EQ(reads[0], reads[1]) << "norms are read with the record, histograms by no sink";
  EXPECT_EQ(values->of("grad_norm/0").size(), 3U);
  EXPECT_EQ(values->values.count("grad_norm/4"), 0U);
}

/// Remembers the elements of histograms, by "name step".
class Histograms final : public Sink {
 public:
  void write(const LogRecord& /*record*/) override {}
  [[nodiscard]] bool wants_pictures() const override { return true; }
  void write_histogram(const LogHistogram& histogram) override {
    const std::string name = std::string(histogram.name) + " " + std::to_string(histogram.step);
    EXPECT_TRUE(
        elements.emplace(name, std::vector<double>(histogram.values.begin(), histogram.values.end())).second)
        << name << " comes twice";
  }
  void resume(std::int64_t /*step*/) override { elements.clear(); }
  std::map<std::string, std::vector<double>> elements;
};

TEST(GradientMonitors, LogHistogramsAgainAfterGoingBack) {
  AlteredLoop loop;
  auto sink = std::make_shared<Histograms>();
  TrainerOptions options = loop.trainer("2ba");
  options.sinks = {sink};
  options.callbacks = {callbacks::GradientMonitor({.histograms = 3})};
  Trainer trainer(options);
  trainer.fit();
  const std::string path = testing::TempDir() + "mezzo_histograms_" + std::to_string(::getpid());
  trainer.save_checkpoint(path);
  trainer.fit("1ba");
  const auto first = sink->elements;
  EXPECT_EQ(first.size(), 2U * 8U);
  trainer.load_checkpoint(path);
  EXPECT_TRUE(sink->elements.empty());
  trainer.fit("1ba");
  EXPECT_EQ(sink->elements, first);
  std::filesystem::remove(path);
}

TEST(GradientMonitors, LogHistogramsOfWeightsAndGradients) {
  for (const AlteredLoopOptions& way : altered_loop_ways()) {
    AlteredLoop hand(way);
    const GradientsByHand wanted = gradients_by_hand(hand, 6);
    auto sink = std::make_shared<Histograms>();
    Watched watched(way);
    const std::uint64_t before = host_reads();
    watched.train("6ba", {callbacks::GradientMonitor({.histograms = 3})},
                  [&](TrainerOptions& options) { options.sinks = {sink}; });
    EXPECT_EQ(host_reads() - before, 6U + 2U) << "of 6 records; weights and gradients are one read";
    EXPECT_EQ(watched.loop.bits(), hand.bits()) << "it watches only";
    EXPECT_EQ(sink->elements.size(), 2U * 2U * 8U) << "steps, kinds, parameters";
    for (const auto& [name, elements] : sink->elements) {
      ASSERT_TRUE(wanted.elements.contains(name)) << name;
      const std::vector<double>& hand_elements = wanted.elements.at(name);
      ASSERT_EQ(elements.size(), hand_elements.size()) << name;
      for (std::size_t i = 0; i < elements.size(); ++i)
        EXPECT_TRUE(elements[i] == hand_elements[i] || std::isnan(hand_elements[i])) << name << " " << i;
    }
  }
}

TEST(GradientMonitors, LogHistogramsOncePerStepOfSam) {
  AlteredLoop loop;
  optim::SAM sam(*loop.optimizer);
  auto sink = std::make_shared<Histograms>();  // which refuses the same name twice in a step
  TrainerOptions options = loop.trainer("2ba");
  options.optimizer = sam;
  options.sinks = {sink};
  options.callbacks = {callbacks::GradientMonitor({.histograms = 1})};
  Trainer(options).fit();
  EXPECT_EQ(sink->elements.size(), 2U * 2U * 8U);
  EXPECT_TRUE(sink->elements.contains("gradients/6.bias 2"));
}

TEST(GradientMonitors, RefuseIntervalsOutOfRange) {
  EXPECT_EQ(message_of<ValueError>([] { return callbacks::GradientMonitor({.every = 0}), 0; }),
            "GradientMonitor: expected every of at least 1, got 0; 1 is each batch");
  EXPECT_EQ(message_of<ValueError>([] { return callbacks::GradientMonitor({.histograms = -1}), 0; }),
            "GradientMonitor: expected histograms of at least 0, got -1; 0 is none");
}

// --- what the trainer logs of the scaler

TEST(TrainersLog, ScaleAndSkippedStepsOfEachStep) {
  const AlteredLoopOptions way{.precision = amp::Precision::amp_fp16, .init_scale = 0x1p24};
  AlteredLoop hand(way);
  std::vector<double> wanted;
  hand.run(8, {.after_step = [&](int, const amp::StepResult& result) {
             wanted.push_back((wanted.empty() ? 0 : wanted.back()) + (result.skipped() ? 1 : 0));
           }});
  EXPECT_GT(wanted.back(), 0);
  EXPECT_LT(wanted.back(), 8);
  const auto values = Watched(way).train("8ba", {});
  EXPECT_EQ(values->of("steps_skipped"), wanted);
  EXPECT_EQ(values->of("scale").size(), 8U);
  EXPECT_EQ(Watched().train("1ba", {})->values.count("steps_skipped"), 0U) << "no scaler";
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
