// TrainerCore: the parts of a training and the loops over them. Construction and checks stand in core.cpp and
// checks.cpp, the loop in fit.cpp, one step in step.cpp and, over several processes, in parallel_step.cpp,
// evaluation and prediction in evaluation.cpp, advice in advising.cpp, checkpoints in saving.cpp.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/captured_step.h"
#include "mezzo/train/progress_bar.h"
#include "mezzo/train/trainer.h"
#include "mezzo/train/trainer/model_call.h"
#include "mezzo/train/trainer/parallel.h"

namespace mezzo::train {

/// The device and the precision that the options name, or their defaults.
[[nodiscard]] Device device_of(const TrainerOptions& options);
[[nodiscard]] amp::Precision precision_of(const TrainerOptions& options, Device device);

/// Throws what Trainer's constructor throws for options that cannot go together.
void check_options(const TrainerOptions& options);

/// The prefix of the names of callbacks' parts in a checkpoint.
inline constexpr const char* kCallbackParts = "callback.";

class TrainerCore {
 public:
  explicit TrainerCore(TrainerOptions options);

  /// Trains until `end`. A training that was stopped goes on only where that was asked for `anew`.
  FitEnd fit(const Time& end, bool anew);
  EvalResults evaluate(const AnyLoader& loader);
  std::vector<Tensor> predict(const AnyLoader& loader);
  amp::Advisory advise(const amp::AdviseOptions& options);
  void save(const std::string& path);
  void load(const std::string& path);

  /// The part of a checkpoint that holds the trainer's own progress.
  [[nodiscard]] Value state_dict() const;
  void load_state_dict(const Value& value);

  [[nodiscard]] State& state() noexcept { return state_; }
  [[nodiscard]] const Parts& parts() const noexcept { return parts_; }
  [[nodiscard]] const TrainerOptions& options() const noexcept { return options_; }

 private:
  /// The batches of one step, and how many samples each of them has.
  struct StepBatches {
    std::vector<AnyBatch> batches;         ///< this rank's shares
    std::vector<std::int64_t> sizes;       ///< of these
    std::vector<std::int64_t> wholes;      ///< of all ranks together
    std::int64_t samples = 0, tokens = 0;  ///< of all ranks together
  };

  /// A piece that runs forward and backward at once: a batch of the step, or a part of a batch.
  struct Piece {
    AnyBatch batch;
    std::int64_t samples;
    std::int64_t part = 0;     ///< in deterministic mode: of this rank's virtual parts
    double share = 1;          ///< of its loss in the step's; 0: it has nothing that counts
    Tensor device_share = {};  ///< the share, f64, where only the device knows
  };

  /// The time before a batch, or before the end of an epoch.
  struct Moment {
    Timestamp time;
    double progress;
    bool at_epoch_end;
  };

  // core.cpp
  void prepare_optimizer();
  /// Makes the DataParallel, and the optimizer of it that the options ask for.
  void share_model();
  void make_schedule();
  void list_callbacks();
  [[nodiscard]] std::unique_ptr<Callback> make_profiling() const;  // profiling.cpp
  void make_logger();
  /// Batches at the end of the training, by what is known; 0: nobody knows.
  [[nodiscard]] std::int64_t total_batches() const;
  void collect_parts();
  void event(Event event);
  [[nodiscard]] bool asks(Event event) const { return !by_event_[static_cast<std::size_t>(event)].empty(); }

  // saving.cpp
  void begin_from_checkpoint();
  /// Goes on from the newest checkpoint in the folder, if there is one.
  [[nodiscard]] bool load_latest();
  void load_file(const std::string& path);
  /// Loads all parts; warns where callbacks' parts differ.
  void load_parts(const std::string& path);
  void save_now();
  /// Writes save.best_weights if an evaluation that has just ended is the best.
  void save_best_weights();
  [[nodiscard]] std::string best_metric() const;
  /// Until what was saved is on the disk.
  void wait_for_files();
  [[nodiscard]] bool saves() const noexcept { return !options_.save.folder.empty(); }

  // fit.cpp
  [[nodiscard]] bool is_done() const;
  /// The work behind the last batch: evaluation, checkpoint, logs.
  void finish(bool has_trained);
  void open_epoch();
  void start_iteration();
  /// Batches until the end of the epoch, or of the training. Returns whether the loader came to its end.
  bool run_epoch();
  /// The batches of the next step; none at the end of the epoch.
  [[nodiscard]] std::optional<StepBatches> next_batches();
  void end_batch(const Timestamp& before, double progress_before);
  void end_epoch();
  /// Gives the batches of a failed step back: they are the next batches again.
  void give_back();
  /// The evaluation and checkpoint that are due behind a batch or an epoch.
  void evaluate_and_save(const Moment& before);
  void end_iteration();
  /// Whether a multiple of the interval was reached since `before`.
  [[nodiscard]] bool is_due(const Time& interval, const Moment& before) const;
  /// A rank that was asked to stop, or has got a signal, stops all.
  void agree_on_stop();
  /// The time since it was counted last.
  void count_time();
  void log_step();
  /// The entries and what callbacks have logged.
  void log_pending(std::vector<LogEntry> entries = {}, bool all_sinks = false);

  // step.cpp
  void step(StepBatches& step);
  /// optimize(), in smaller parts when memory runs out.
  void optimize_within_memory(const StepBatches& step);
  /// optimize(), captured and replayed.
  void optimize_captured(const StepBatches& step);
  void optimize(const StepBatches& step);
  void zero_grad();
  /// Gradients of all batches; returns the mean loss.
  Tensor train_microbatches(const StepBatches& step);
  /// The pieces that a step runs forward and backward: batches, or microbatches of them.
  [[nodiscard]] std::vector<Piece> pieces_of(const StepBatches& step) const;
  /// The pieces' shares of the step: of its samples, or of what `weigh_by` says.
  void weigh(std::vector<Piece>& pieces, const StepBatches& step) const;
  /// Returns the loss times the piece's share.
  Tensor forward_backward(const Piece& piece);
  /// The loss times the piece's share, with history, before backward.
  [[nodiscard]] Tensor forward(const Piece& piece);
  void backward(const Tensor& loss);
  /// Throws: DTypeError unless its tensors are of the dtypes of the first batch.
  void check_dtypes(const AnyBatch& batch);

  // parallel_step.cpp
  /// train_microbatches over all ranks: gradients of this rank's share, the mean loss of all.
  Tensor train_share(const StepBatches& step);
  [[nodiscard]] Tensor train_pieces(const StepBatches& step);
  [[nodiscard]] std::vector<Tensor> train_virtual_parts(const StepBatches& step);
  void train_nothing();

  // evaluation.cpp
  /// Runs the callbacks of eval_end or predict_end from the `first` on, so that they undo what they did at
  /// the beginning.
  void end_after_error(Event end, std::size_t first) noexcept;
  /// f(output, batch, i) for part i of this rank's share of each batch; then finish(batches), their number.
  /// In evaluation mode.
  template <class F, class G>
  void over_batches(const AnyLoader& loader, const std::array<Event, 6>& events, ParallelRun& run, const F& f,
                    const G& finish);
  /// The first batch of the train_loader's epoch 0, with tensors of its own.
  [[nodiscard]] AnyBatch first_batch();

  TrainerOptions options_;
  State state_;
  detail::ModelCall call_;
  ParallelRun parallel_;
  std::shared_ptr<optim::Optimizer> default_optimizer_;
  std::optional<optim::LRScheduler> schedule_;
  std::optional<amp::ModulePrecision> rules_;
  amp::GradScaler scaler_;
  std::unique_ptr<Logger> logger_;
  std::shared_ptr<ProgressBar> bar_;     ///< nullptr: none
  std::unique_ptr<Callback> profiling_;  ///< nullptr: none
  std::array<std::vector<Callback*>, kEvents> by_event_;
  Value first_rates_ = Value::List{};  ///< learning rates of the groups when the trainer was made
  Parts parts_;
  std::unique_ptr<CheckpointManager> checkpoints_;
  std::optional<double> best_result_;  ///< of rank 0: of the weights in save.best_weights

  bool is_epoch_open_ = false;  ///< the loader's loop is under way
  std::int64_t loads_ = 0;      ///< checkpoints loaded
  std::int64_t taken_ = 0;      ///< batches that the step under way has had of the loader
  bool was_stopped_ = false;    ///< the checkpoint is of a training that was stopped
  bool is_signalled_ = false;   ///< it stops because a signal has come
  /// Checkpoints in the folder from this step on are of another run, or of a time that was gone back from:
  /// the next save sets them aside.
  std::optional<std::int64_t> set_aside_from_;
  bool is_iteration_started_ = false;
  bool has_sinks_ = false;
  bool weighs_samples_ = false;                     ///< of the pieces of a step
  bool has_batch_norms_ = false;                    ///< their statistics are taken over one piece
  double clock_ = 0;                                ///< when time was counted last
  std::int64_t evaluated_at_ = -1, saved_at_ = -1;  ///< batches
  std::vector<DType> batch_dtypes_;                 ///< of the first batch's tensors
  Tensor step_loss_;                                ///< of the first evaluation of a step's closure
  std::optional<LogValue> step_lr_;                 ///< the learning rate that the step was made with
  // captured
  std::unique_ptr<amp::CapturedStep> captured_;
  StepBatches captured_batches_;
};

}  // namespace mezzo::train
