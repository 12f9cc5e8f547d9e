// Callbacks that watch a training, log, and may end it.
//   train::Trainer trainer({..., .callbacks = {train::callbacks::SpeedMonitor(),
//                                              train::callbacks::EarlyStopping({.patience = 5})}});
// Common to all. A callback belongs to one trainer at a time. None changes what is computed. Options that
// make no sense throw ValueError in the constructor. A callback that makes the host wait says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/nn/anomaly.h"
#include "mezzo/train/callback.h"
#include "mezzo/train/checkpoint_manager.h"
#include "mezzo/train/functions.h"
#include "mezzo/train/throughput.h"

namespace mezzo::train::callbacks {

struct EarlyStoppingOptions {
  std::string metric = "loss";  ///< of State::eval_results
  std::int64_t patience = 3;    ///< evaluations without a better value after which the training ends
  double min_delta = 0;         ///< a value is better if it is so by more than this
  Best mode = Best::lowest;
};
/// Stops the training when a metric of the evaluations has not become better for some time. NaN is never
/// better. Several evaluations at one batch count as one, the first. A checkpoint holds what it has seen.
/// Throws: ValueError for a patience < 1, a negative or infinite min_delta; in a training for a metric that
/// evaluations do not have. Source: lightning.pytorch.callbacks.EarlyStopping; composer's EarlyStopper.
class EarlyStopping final : public detail::CallbackAt<Event::eval_end> {
 public:
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});
  void run(Event event, State& state) override;
  [[nodiscard]] Parts parts() override;
  [[nodiscard]] std::string identity() const override { return "EarlyStopping(" + options_.metric + ")"; }

 private:
  EarlyStoppingOptions options_;
  bool has_best_ = false;
  double best_ = 0;
  std::int64_t waited_ = 0;       // evaluations since the best one
  std::int64_t last_batch_ = -1;  // of the last evaluation that counted
};

struct SpeedMonitorOptions {
  std::size_t window = 100;  ///< batches that rates look back
  Clock clock = {};          ///< default: steady_seconds
};
/// Logs "speed/samples_per_second", "speed/batches_per_second" and, where tokens are counted,
/// "speed/tokens_per_second" after each batch, by train::Throughput, and "speed/loader_wait": the seconds
/// until the loader had given the step its batches, and they were on the device. Evaluations and predictions
/// take no time. Source: composer.callbacks.SpeedMonitor.
class SpeedMonitor final
    : public detail::CallbackAt<Event::fit_start, Event::fit_end, Event::before_dataloader,
                                Event::after_dataloader, Event::batch_end, Event::eval_start, Event::eval_end,
                                Event::predict_start, Event::predict_end> {
 public:
  explicit SpeedMonitor(const SpeedMonitorOptions& options = {});
  void run(Event event, State& state) override;
  /// Of the last fit(), for a program that has given the trainer a std::shared_ptr of it.
  [[nodiscard]] const Throughput& throughput() const noexcept { return throughput_; }

 private:
  Throughput throughput_;
  Clock clock_;
  std::int64_t tokens_ = 0;             // of the training at the last batch
  double wait_begin_ = 0, waited_ = 0;  // for batches of the step
};

struct MemoryMonitorOptions {
  std::int64_t every = 10;  ///< batches; the system takes some 20 us to say what the process has
};
/// Logs bytes: "memory/allocated", "memory/peak_allocated", "memory/reserved" and "memory/cached" of the
/// training's device (memory_stats), "memory/process" and "memory/process_peak" (process_memory; on Linux);
/// and at the end of fit() the text "memory", one line (memory_line). Throws: ValueError for every < 1.
/// Source: composer.callbacks.MemoryMonitor.
class MemoryMonitor final : public detail::CallbackAt<Event::batch_end, Event::fit_end> {
 public:
  explicit MemoryMonitor(const MemoryMonitorOptions& options = {});
  void run(Event event, State& state) override;

 private:
  MemoryMonitorOptions options_;
};

struct LRMonitorOptions {
  bool momentum = false;  ///< "momentum/group0" as well (beta1 of Adam)
};
/// Logs the learning rate of each group of the optimizer after each batch, as "lr/group0", ...: what its
/// step has taken. (The trainer itself logs "lr", the first group's.) Nothing with LBFGS. Source:
/// lightning.pytorch.callbacks.LearningRateMonitor; composer's LRMonitor.
class LRMonitor final : public detail::CallbackAt<Event::batch_start> {
 public:
  explicit LRMonitor(const LRMonitorOptions& options = {}) : options_(options) {}
  void run(Event event, State& state) override;

 private:
  LRMonitorOptions options_;
};

struct GradientMonitorOptions {
  std::int64_t every = 10;      ///< batches
  std::int64_t histograms = 0;  ///< batches between two sets of histograms; 0: none
};
/// Logs the norm of each layer's gradients, "grad_norm/<path>", and histograms of parameters and gradients,
/// "weights/<name>" and "gradients/<name>", before the optimizer's step: unscaled, clipped, of all ranks
/// together. A layer is a module with parameters of its own. What has no gradient, as when frozen, is left
/// out; so are gradients of a ShardedOptimizer, which lie in shards. What is not finite is logged as such,
/// also where the scaler skips the step; of SAM with amp_fp16 gradients are times the scale. The host reads
/// norms with the step's record; for a sink with histograms it reads all elements, 2^24 at a time, in a step
/// that evaluates several times at the first. Not with TrainerOptions::captured. Throws: ValueError for every
/// < 1, histograms < 0. Source: composer's OptimizerMonitor, wandb.watch.
class GradientMonitor final : public detail::CallbackAt<Event::batch_start, Event::after_train_batch> {
 public:
  explicit GradientMonitor(const GradientMonitorOptions& options = {});
  void run(Event event, State& state) override;

 private:
  GradientMonitorOptions options_;
  bool has_histograms_ = false;  // of the step
};

/// Metrics of the training's own outputs since the beginning of the epoch, logged after each batch as
/// "train/<name>". Counted as evaluations count (EvalMetric), from microbatch to microbatch; of several
/// evaluations per step (SAM) the last one counts, and of a batch that is tried again the last try. A
/// training that is resumed in an epoch counts from there. Over several processes they are of all ranks'
/// shares. Throws: ValueError for no metric. Source: composer's train_metrics.
class TrainMetrics final
    : public detail::CallbackAt<Event::fit_start, Event::epoch_start, Event::before_train_batch,
                                Event::after_loss, Event::batch_end> {
 public:
  explicit TrainMetrics(std::vector<EvalMetric> metrics);
  void run(Event event, State& state) override;

 private:
  void begin_batch();

  std::vector<EvalMetric> metrics_;
  std::vector<std::vector<Tensor>> before_;  // sums of each metric before the batch
  bool is_open_ = false;                     // within a batch
};

struct AnomalyHuntOptions {
  std::int64_t patience = 10;  ///< bad steps in a row
  std::int64_t every = 10;     ///< batches between two looks, each one host read
  bool throws = true;          ///< false: the training stops, and Logger::text gets the line as "anomaly"
};
/// Ends a training that overflows again and again, and says why. A step is bad when the scaler has skipped
/// it, or, without a scaler, when its loss is not finite. They are counted on the device; the host reads the
/// count every few batches. Once so many in a row were bad, the next step runs under autograd::detect_anomaly
/// (slow: a host read per op). If it is bad, too, one line names the first parameter whose gradient was not
/// finite, and the op and the layer that made the first such value; if it is not, the training goes on. A
/// step that is replayed (TrainerOptions::captured) runs no ops that could be watched: the line names the
/// parameter then. With patience 1 it is what others call "terminate on NaN".
/// Throws: ValueError for a patience or every < 1; in a training AutogradError, the line.
class AnomalyHunt final
    : public detail::CallbackAt<Event::fit_start, Event::batch_start, Event::batch_end, Event::fit_end> {
 public:
  explicit AnomalyHunt(const AnomalyHuntOptions& options = {});
  void run(Event event, State& state) override;

 private:
  void count(const State& state);
  void look(State& state, const std::optional<autograd::Anomaly>& anomaly);
  void report(State& state, std::int64_t bad_steps, const std::optional<autograd::Anomaly>& anomaly);

  AnomalyHuntOptions options_;
  Tensor run_, longest_;  // bad steps in a row: until now, and the most since the last look; i64 0-dim
  bool watches_ = false;  // the next step
  std::unique_ptr<DetectAnomaly> watch_;
};

}  // namespace mezzo::train::callbacks
