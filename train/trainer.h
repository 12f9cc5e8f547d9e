// Trainer: the loop around a step, with precision, loss scaling, accumulation, evaluation, logs and
// checkpoints.
//   train::Trainer trainer({.model = net, .loss = nn::CrossEntropyLoss(), .optimizer = adam,
//                           .train_loader = loader, .max_duration = "3ep", .precision = "amp_bf16",
//                           .algorithms = {train::algorithms::LowPrecisionGroupNorm{}}});
//   trainer.fit();
// It calls what a loop by hand calls, in this order, so that both end with the same bits
// (docs/training_runs.md).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/module_precision.h"
#include "mezzo/dist/data_parallel_options.h"
#include "mezzo/optim/schedule.h"
#include "mezzo/profile/advise.h"
#include "mezzo/train/callback.h"
#include "mezzo/train/checkpoint_manager.h"
#include "mezzo/train/functions.h"
#include "mezzo/train/state.h"

namespace mezzo::dist {
class DataParallel;
}  // namespace mezzo::dist

namespace mezzo::train {

/// A precision by enumerator or name; default: amp_fp16 on CUDA, fp32 on the CPU. The old name "fp16" is
/// amp_fp16 here. Throws: ValueError for another name.
class TrainerPrecision {
 public:
  TrainerPrecision() = default;
  TrainerPrecision(amp::Precision precision) : value_(precision) {}
  TrainerPrecision(std::string_view name);
  TrainerPrecision(const char* name) : TrainerPrecision(std::string_view(name)) {}
  TrainerPrecision(const std::string& name) : TrainerPrecision(std::string_view(name)) {}
  [[nodiscard]] const std::optional<amp::Precision>& value() const noexcept { return value_; }

 private:
  std::optional<amp::Precision> value_;
};

/// Samples per microbatch: a number; "auto": the whole batch, halved whenever memory runs out; default: the
/// whole batch. Throws: ValueError for a number below 1 and another name.
class Microbatch {
 public:
  Microbatch() = default;
  Microbatch(std::int64_t samples);
  Microbatch(int samples) : Microbatch(static_cast<std::int64_t>(samples)) {}
  Microbatch(std::string_view name);
  Microbatch(const char* name) : Microbatch(std::string_view(name)) {}
  [[nodiscard]] const std::optional<std::int64_t>& samples() const noexcept { return samples_; }
  [[nodiscard]] bool is_auto() const noexcept { return auto_; }

 private:
  std::optional<std::int64_t> samples_;
  bool auto_ = false;
};

/// Over which processes a training goes: dist::data_parallel(), or a DataParallel that the program has made
/// and keeps, which a ShardedOptimizer of its own needs. Default: this process alone.
class Parallel {
 public:
  Parallel() = default;
  Parallel(const dist::DataParallelOptions& options) : options_(options) {}
  Parallel(dist::DataParallel& made) : made_(&made) {}

  [[nodiscard]] bool defined() const noexcept { return made_ != nullptr || options_.has_value(); }
  [[nodiscard]] dist::DataParallel* made() const noexcept { return made_; }
  [[nodiscard]] const std::optional<dist::DataParallelOptions>& options() const noexcept { return options_; }

 private:
  std::optional<dist::DataParallelOptions> options_;
  dist::DataParallel* made_ = nullptr;
};

/// The effect of SIGTERM and SIGUSR1 while fit() runs: the same as in the program otherwise; or the step
/// under way is the last, a checkpoint is written, and fit() returns FitEnd::signalled. Of several processes
/// one that gets the signal is enough.
enum class OnSignal : std::uint8_t { leave, save_and_stop };

/// Why fit() has returned: max_duration is reached, State::stop_training() was called, or OnSignal.
enum class FitEnd : std::uint8_t { finished, stopped, signalled };

/// Where and how often a trainer writes checkpoints.
struct TrainerSave {
  std::string folder = {};                    ///< empty: none are written
  Time interval = "1ep";                      ///< and at the end of fit(); 0: only there
  std::int64_t keep_last = 3, keep_best = 1;  ///< as CheckpointManagerOptions
  std::string metric = {};                    ///< of eval_results, which says what is best; empty: none is
  Best best = Best::lowest;
  bool background = true;
  /// A safetensors file of the model's weights alone, under their names in its state dict: those of the best
  /// evaluation of eval_loader so far, by `metric`, else by the loss; averages where an EMA or SWA has taken
  /// their place. Written at the end of such an evaluation. Empty: none.
  std::string best_weights = {};
};

/// Which steps of a fit() are profiled (profile/profiler.h). "profile.txt" and "trace.json" are left in the
/// folder, and the report as the text "profile" in the logs.
struct TrainerProfile {
  std::int64_t from = 10;   ///< steps before the first one
  std::int64_t steps = 10;  ///< 0: none; a fit() that ends before records as many as it has
  bool shapes = false;      ///< a row of ops for each shape of the inputs
  std::string folder = {};  ///< which is there; default: save.folder, else the working directory
};

struct TrainerOptions {
  ModelRef model;
  Loss loss;
  /// Default: SGD with learning rate 0.1 and weight decay 1e-5 of its own, with a warning.
  AnyOptimizer optimizer = {};
  std::optional<optim::Schedule> schedule = {};  ///< steps are those that the scaler has not skipped
  AnyLoader train_loader = {};
  AnyLoader eval_loader = {};
  Forward forward = {};                  ///< default: the model, a Layer, of a batch's `data`
  TokenCount tokens = {};                ///< tokens of a batch, where time is told in tokens
  LossWeight weigh_by = {};              ///< what the loss is a mean over
  std::vector<EvalMetric> metrics = {};  ///< of evaluations
  std::optional<Time> max_duration = {};
  Time eval_interval = "1ep";                 ///< and at the end of fit(); 0: never
  std::optional<Time> iteration_length = {};  ///< in epochs or tokens
  TrainerPrecision precision = {};
  /// Rules for modules, by their paths before algorithms change the model, as long as the trainer lives
  /// (amp::ModulePrecision). The scaler is amp_fp16's: rules of f16 under another precision go without.
  amp::PrecisionRules module_precision = {};
  amp::GradScalerOptions scaler = {};  ///< of amp_fp16
  Microbatch microbatch = {};
  std::int64_t accumulate = 1;  ///< batches of the loader per step; an epoch's last step may have fewer
  std::optional<double> clip_norm = {};  ///< of all gradients together
  std::vector<AnyCallback> algorithms = {}, callbacks = {};
  std::vector<AnySink> sinks = {};
  bool progress_bar = true;  ///< on stderr
  TrainerSave save = {};
  /// A checkpoint to begin with. Its model alone with load_weights_only.
  std::string load = {};
  bool load_weights_only = false;
  bool resume = false;                   ///< go on from the newest checkpoint in save.folder, if there is one
  OnSignal on_signal = OnSignal::leave;  ///< save_and_stop needs a save.folder
  std::optional<Device> device = {};     ///< default: the model's
  std::optional<std::uint64_t> seed = {};  ///< of the default generator, set when the trainer is made
  /// On a CUDA device: capture a step once and replay it (amp::CapturedStep). Callbacks between
  /// before_train_batch and after_train_batch are refused then.
  bool captured = false;
  TrainerProfile profile = {.steps = 0};
  /// Trains in several processes, which make the same trainer (docs/dist.md).
  Parallel parallel = {};
};

/// Trains a model. Objects that are given by reference must live as long. Not thread-safe.
///
/// One step: zero_grad; per microbatch forward and loss, each in the precision's autocast region, and
/// backward of scaler.scale(loss * share), the share of the microbatch in what the step weighs (weigh_by: by
/// default what the loss's mean divides by, where it is an nn::Loss that says so, else samples); unscale_,
/// where clipping or a callback at after_train_batch needs it; clip_grad_norm_; scaler.step(optimizer);
/// schedule.step(result); scaler.update(). SAM and LBFGS get all up to the clipping as their closure.
///
/// Logged per step: "loss", "lr", with a scaler "scale" and "steps_skipped" (how many so far), and what
/// callbacks add; per evaluation "eval/<name>" for each result. A step reads nothing back unless a sink or a
/// callback does.
///
/// Checkpoints hold model, optimizer, schedule, scaler, the train loader's place, the default generator, the
/// time, the last results, and the parts of algorithms and callbacks ("callback.EMA(0.999).average", ...): a
/// training that was stopped anywhere goes on with the same bits (loaders other than data::DataLoader begin
/// their epoch anew).
///
/// With `parallel` a batch is the whole batch of all processes, of which each takes its share. Losses are
/// weighed as in one process, so a step is the same as in one process with the same batches, and state.loss,
/// results of evaluations and times are the same on all ranks; state.batch is this rank's share. Logs and
/// checkpoints are written by rank 0; all ranks read the files. predict() computes all outputs on each rank.
///
/// Throws: ValueError, DeviceError, from the constructor, for all that can be known then: no model, loss or
/// loader; a model that is no Layer and no forward; a batch type that loss, forward or a metric does not
/// take; parameters of the optimizer that are not the model's, or on another device; times in units that do
/// not apply; an eval_loader without metrics; options that do not go with `parallel` (captured, microbatch
/// "auto"). From fit(): CallbackError; ShapeError for a loss of several
/// elements; ValueError for a batch of another type, and without max_duration.
class Trainer : mezzo::detail::NoCopy {
 public:
  explicit Trainer(TrainerOptions options);
  ~Trainer();

  /// Trains until max_duration, or what is left of it after a checkpoint or an earlier call; then evaluates
  /// and saves unless that was done at the last batch. A signal leaves the evaluation out.
  FitEnd fit();
  /// Goes on for so long from where the training is, whatever max_duration says.
  FitEnd fit(const Time& duration);
  /// Metrics over the eval_loader, or another, with the model in evaluation mode and in the training's
  /// precision.
  EvalResults eval();
  EvalResults eval(const AnyLoader& loader);
  /// The model's outputs for all batches of a loader, on its device, likewise.
  std::vector<Tensor> predict(const AnyLoader& loader);

  /// Why mixed precision is not faster here (amp::advise): of the first batch of the train_loader's epoch 0,
  /// with the trainer's model, loss, optimizer, clipping and precision (of fp32, bf16 on a CPU and f16 on
  /// CUDA; `dtype` of the options counts before both), without algorithms, callbacks, schedule, microbatches
  /// and capture. Other models and batches are tried on clones, where the model can be cloned and takes one
  /// tensor. Afterwards parameters, gradients, buffers, optimizer, generator and loader are as before, bit
  /// for bit; loaders other than data::DataLoader begin their epoch anew. Throws: ValueError without a
  /// train_loader or a batch, and for a training in several processes; as amp::advise.
  [[nodiscard]] amp::Advisory advise(const amp::AdviseOptions& options = {});

  [[nodiscard]] State& state() noexcept;
  [[nodiscard]] const State& state() const noexcept;
  /// Saves a checkpoint into a file, or loads one.
  void save_checkpoint(const std::string& path);
  void load_checkpoint(const std::string& path);
  /// The parts that a checkpoint holds.
  [[nodiscard]] const Parts& parts() const noexcept;

 private:
  std::unique_ptr<class TrainerCore> core_;
};

}  // namespace mezzo::train
