// ParallelRun: what a training over several processes adds to the trainer: the group, the DataParallel, each
// rank's share of batches and of random numbers, and what ranks agree on.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mezzo/core/random/draw_recorder.h"
#include "mezzo/dist/data_parallel.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {

/// The options with the device of this process: where they name the first device of a machine, this process's
/// own. Finds the other processes.
[[nodiscard]] TrainerOptions on_own_device(TrainerOptions options);

/// clip_grad_norm_ of these parameters' gradients, or of the shards of all ranks where the optimizer is
/// sharded.
Tensor clip_gradients(const optim::Optimizer* optimizer, TensorList parameters, double max_norm,
                      double norm_type = 2.0);

class ParallelRun {
 public:
  /// This process alone, which shares nothing.
  ParallelRun() = default;
  explicit ParallelRun(const Parallel& parallel);
  [[nodiscard]] bool is_alone() const noexcept { return is_alone_; }

  [[nodiscard]] const dist::Group& group() const noexcept { return group_; }
  [[nodiscard]] int size() const noexcept { return group_.size(); }
  [[nodiscard]] bool is_first() const noexcept { return group_.rank() == 0; }
  [[nodiscard]] bool is_deterministic() const noexcept { return all_parts_ > 0; }

  /// Makes the DataParallel, unless the program has.
  void share_model(nn::Module& model);
  [[nodiscard]] dist::DataParallel& data_parallel() const noexcept { return *made_; }
  /// The factor of losses, by which gradients are those of the losses' sum over all ranks.
  [[nodiscard]] double gradient_factor() const noexcept;
  /// A backward that reaches all parameters and gives them zeros: of a rank without samples.
  [[nodiscard]] Tensor loss_of_nothing() const;

  // --- batches
  /// Begins an epoch of this rank's shares. Throws: ValueError, on all ranks, where they load other data.
  void begin(detail::LoaderFace& loader);
  struct Share {
    AnyBatch batch = {};
    std::optional<std::int64_t> whole = {};  ///< samples of all ranks; none: of a process alone
  };
  /// An undefined batch at the end of the epoch. Throws: ValueError, on all ranks, for batches of different
  /// sizes.
  [[nodiscard]] Share next(detail::LoaderFace& loader);
  /// Numbers of this rank's parts of a step: [first, last).
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> own_parts() const noexcept;
  /// Samples of a part within this rank's share: begin and length.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range_of(std::int64_t part, std::int64_t whole) const;
  /// A share, or in deterministic mode its parts that have samples, each with its number among this rank's
  /// parts.
  [[nodiscard]] std::vector<std::pair<std::size_t, AnyBatch>> parts_of(const Share& share) const;

  /// Whether one of a step's batches gives some virtual part no samples.
  [[nodiscard]] bool has_empty_part(const std::vector<std::int64_t>& wholes) const;
  /// Throws: ValueError, on all ranks, where a model with SyncBatchNorm would run forward more often on one
  /// of them than on another.
  void require_equal_forwards(const std::vector<std::int64_t>& wholes,
                              std::optional<std::int64_t> microbatch) const;
  /// Gives all ranks those integer buffers that the step's last part has left: it has samples of each batch.
  void share_counters(const nn::Module& model) const;

  /// Gives all ranks rank 0's buffers, so that they evaluate one model.
  void share_buffers(const nn::Module& model) const;

  // --- random numbers
  /// Counts the evaluations of a step's loss, of which each draws numbers of its own.
  void begin_draws() noexcept { ++evaluations_; }
  [[nodiscard]] std::int64_t evaluations() const noexcept { return evaluations_; }
  void set_evaluations(std::int64_t evaluations) noexcept { evaluations_ = evaluations; }
  /// While it lives, this thread's draws follow from the generators' states, the number of the evaluation and
  /// the number of a part; generators do not advance.
  class PartDraws final : public mezzo::detail::DrawRecorder {
   public:
    PartDraws(const ParallelRun& run, std::int64_t part);
    [[nodiscard]] RandomRange record(const Ref<mezzo::detail::Sequence>& sequence, std::uint64_t blocks,
                                     Device device) override;
    void set_state(mezzo::detail::Sequence& sequence, const GeneratorState& state) override;

   private:
    std::uint64_t begin_;
    std::unordered_map<const mezzo::detail::Sequence*, std::uint64_t> used_;
    mezzo::detail::DrawRecorderScope scope_;
  };

  // --- what ranks agree on
  /// The sum of losses over all ranks' parts, on each of them. `losses`: of this rank's parts, one in fast
  /// mode; undefined losses are 0.
  [[nodiscard]] Tensor sum_of_losses(const std::vector<Tensor>& losses, Device device);
  /// The sum of such numbers over all ranks' parts, f64, on `device`, the same for all ranks. In
  /// deterministic mode it has the same bits for any number of ranks.
  [[nodiscard]] Tensor sum_of_parts(const std::vector<Tensor>& numbers, Device device) const;
  /// The sum, or the largest, of all ranks' numbers.
  [[nodiscard]] std::int64_t reduced(std::int64_t number, dist::ReduceOp op) const;
  /// Rank 0's value.
  [[nodiscard]] double of_first(double number) const;
  [[nodiscard]] std::string of_first(const std::string& text) const;
  /// Adds up the metric states of all ranks' parts into `metric`, where it has a state; `parts[i]`: the state
  /// of this rank's part i. Returns whether it has, or no rank has.
  bool add_up(const Metric& metric, const std::vector<std::vector<Tensor>>& parts) const;
  /// The numbers of the first rank whose flag is set.
  [[nodiscard]] std::vector<double> of_first_with(bool flag, const std::vector<double>& numbers) const;
  /// f(), then on all ranks: what it threw on this one, or CommunicationError with what it threw on another.
  template <class F>
  void together(const F& f) const {
    if (is_alone()) return f();
    std::exception_ptr error;
    try {
      f();
    } catch (...) {
      error = std::current_exception();
    }
    settle(error);
  }
  void settle(const std::exception_ptr& error) const;

 private:
  /// Where small numbers travel: the CPU, or the device where only NCCL moves data.
  [[nodiscard]] Device number_device() const;

  bool is_alone_ = true;
  dist::Group group_;
  dist::DataParallelOptions options_ = {};
  dist::DataParallel* made_ = nullptr;
  std::unique_ptr<dist::DataParallel> own_;
  std::int64_t all_parts_ = 0;  ///< virtual parts; 0 in fast mode
  std::int64_t evaluations_ = 0;
  DType loss_dtype_ = DType::f32;  ///< of the last loss
  bool is_first_batch_ = false;    ///< of an epoch
  bool has_sync_norms_ = false;
};

}  // namespace mezzo::train
