// State: a training as algorithms and callbacks see it and may change it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/precision.h"
#include "mezzo/nn/module.h"
#include "mezzo/optim/lr_scheduler.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/train/batch.h"
#include "mezzo/train/functions.h"
#include "mezzo/train/logger.h"
#include "mezzo/train/time.h"

namespace mezzo::train {

/// A training as it is. References are to what the trainer was given or made; everything may be read and
/// changed at any event.
struct State {
  nn::Module& model;
  optim::Optimizer* optimizer = nullptr;   ///< of SAM its own; nullptr: LBFGS
  optim::LRScheduler* schedule = nullptr;  ///< nullptr: none
  amp::GradScaler* scaler = nullptr;       ///< not enabled unless precision is amp_fp16
  amp::Precision precision = amp::Precision::fp32;
  Device device = Device::cpu();

  Timestamp time = {};
  std::optional<Time> max_duration = {};  ///< of fit(); may be changed
  /// The batch: from after_dataloader to batch_end, and of an evaluation; between before_forward and
  /// after_backward the microbatch. An algorithm may put another of its type in its place.
  AnyBatch batch = {};
  std::int64_t batch_samples = 0;  ///< of all batches of this step
  Tensor output = {};  ///< of the model: from after_forward on; may be replaced before before_loss
  /// From after_loss to after_backward the microbatch's, with history, and may be replaced in after_loss;
  /// from after_train_batch on the step's: the mean over all samples, without.
  Tensor loss = {};
  amp::StepResult step_result = {};  ///< from batch_end on: whether the scaler has skipped the step
  std::optional<std::int64_t> microbatch = {};  ///< samples per microbatch; none: the batch is not cut
  EvalResults eval_results = {};                ///< of the last evaluation

  /// fit() returns after this batch: behind batch_end, what is due then, and fit_end.
  void stop_training() noexcept { stop_requested_ = true; }
  [[nodiscard]] bool stop_requested() const noexcept { return stop_requested_; }
  /// Whether the evaluation under way is of the trainer's eval_loader. Others leave the training as it was:
  /// their results are in eval_results until the end of eval_end, and decide nothing.
  [[nodiscard]] bool is_own_evaluation() const noexcept { return is_own_evaluation_; }
  /// The metric's result over what all ranks have counted; its own in one process. All ranks call it.
  [[nodiscard]] Tensor over_ranks(const Metric& metric) const;
  /// A value for the record that the trainer logs at the end of this batch (or evaluation). A tensor is read
  /// only if a sink asks for this step. The last value of a name counts.
  void log(std::string name, LogValue value);
  /// The share of max_duration that is done, in [0, 1]; 0 without one.
  [[nodiscard]] double progress() const;
  /// The trainer's logger, for texts and histograms.
  [[nodiscard]] Logger& logger() const noexcept { return *logger_; }

 private:
  friend class Trainer;
  friend class TrainerCore;
  explicit State(nn::Module& net) : model(net) {}

  Logger* logger_ = nullptr;
  const class ParallelRun* run_ = nullptr;
  bool stop_requested_ = false;
  bool is_own_evaluation_ = false;
  std::optional<std::int64_t> epoch_batches_ = {};  ///< steps in an epoch, where the loader knows
  std::vector<std::pair<std::string, LogValue>> pending_ = {};
};

}  // namespace mezzo::train
