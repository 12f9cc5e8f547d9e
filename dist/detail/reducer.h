// Reducer: what a DataParallel puts in the place of `.grad`: buckets of gradients, which are reduced as they
// become full. Also the place where a ShardedOptimizer gets its shards from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/autograd/gradient_receiver.h"
#include "mezzo/dist/detail/bucket.h"
#include "mezzo/dist/detail/model_buffers.h"

namespace mezzo::dist {

/// A run of elements of one parameter, in row-major order, and where they lie in a bucket.
struct ShardRange {
  std::size_t parameter = 0;  ///< index in Reducer::parameters()
  std::int64_t begin = 0, end = 0;
  std::size_t bucket = 0;
  std::int64_t offset = 0;  ///< elements from the bucket's beginning
};

/// Gradients of one parameter that no_sync() has held back.
struct HeldGradient {
  Tensor local;  ///< their sum; undefined: none
  Tensor shown;  ///< the `.grad` that holds them; another one there means that they were dropped
  Tensor base;   ///< `.grad` before them, reduced already; `shown` is the sum of both then
};

class Reducer final : public autograd::GradientReceiver {
 public:
  Reducer(nn::Module& model, const DataParallelOptions& options);

  void begin(std::span<const std::size_t> leaves) override;
  void receive(std::size_t leaf, Tensor gradient) override;
  void finish() override;
  void abandon() noexcept override;

  [[nodiscard]] const Group& group() const noexcept { return group_; }
  [[nodiscard]] const DataParallelOptions& options() const noexcept { return options_; }
  /// All that require grad, in the model's order, with their names.
  [[nodiscard]] const nn::NamedTensors& parameters() const noexcept { return parameters_; }

  /// The model is called. Also where this rank has no samples for a forward, to take part in the buffers'
  /// exchange.
  void begin_forward();

  // For a ShardedOptimizer.
  /// From now on the layout of the buckets stays, and a rank gets the reduced gradients of its own part of
  /// each bucket only: the gradients of `leaves[i]`, a leaf in the memory of this rank's shard i, become or
  /// are added to its `.grad`; parameters get none. Throws: StateError when it is sharded already.
  void shard(std::vector<Tensor> leaves);
  /// The shards of a rank, by bucket and place. Each bucket is cut into equal parts, of which the last may be
  /// empty. Does not change once a layout was handed out by it.
  [[nodiscard]] std::vector<ShardRange> shards(int rank);
  /// Gives every rank the values that each has written into its shards of the parameters.
  void gather_parameters();

 private:
  friend class DataParallel;
  /// The leaves' gradients come here from now on. Throws: StateError for a leaf that has a receiver.
  void attach();
  void detach() noexcept;

  /// A parameter, and where the step is with it.
  struct Leaf {
    std::size_t bucket = 0, place = 0;
    bool is_attached = false;
    bool has_come = false;    ///< its gradient, or zeros in its place
    bool is_reached = false;  ///< by any part of the step
    HeldGradient held;
    Tensor arrived;             ///< of a backward that is not reduced
    std::uint32_t version = 0;  ///< of the parameter when gradients were held back, or the step's parts began
  };

  [[nodiscard]] bool has_parts() const noexcept { return options_.virtual_parts > 0; }
  [[nodiscard]] int parts() const noexcept {
    return has_parts() ? options_.virtual_parts / group_.size() : 1;
  }
  /// Whether gradients go to `.grad` as they are: one process, nothing to cut or to add in a tree.
  [[nodiscard]] bool is_alone() const noexcept { return group_.size() == 1 && !has_parts() && !is_sharded_; }
  [[nodiscard]] const Tensor& parameter(std::size_t i) const { return parameters_[i].second; }

  // In reducer_setup.cpp.
  /// Throws: ValueError, on all ranks, where models or options differ.
  void compare_models() const;
  /// Buckets for gradients that become ready in this order.
  void make_buckets(std::span<const std::size_t> order);
  /// After the first reduced backward: in the order in which rank 0's gradients became ready.
  void rebuild_buckets();
  [[nodiscard]] std::vector<ShardRange> shards_of(int rank) const;

  // In reducer_backward.cpp.
  void begin_reduced(std::span<const std::size_t> announced);
  /// A gradient, undefined for zeros, goes to its bucket; full buckets are started.
  void take(std::size_t i, const Tensor& gradient);
  void finish_part();
  void finish_step();
  /// Which parameters any rank has reached in this step.
  [[nodiscard]] std::vector<bool> reached_by_any();
  /// Of gradients that are not reduced.
  void accumulate_locally();
  void note_versions();
  /// Drops held-back gradients that are not in `.grad` any more.
  void drop_stale_held();
  /// Parameters were written by gradients that were never reduced.
  void warn_of_local_steps();
  /// Throws: StateError for parameters that were converted, moved, unfrozen, or changed too early.
  void require_unchanged();
  /// Throws: AutogradError that names these parameters.
  [[noreturn]] void refuse_unused(std::span<const std::size_t> unused) const;

  nn::Module& model_;
  DataParallelOptions options_;
  Group group_;
  nn::NamedTensors parameters_;
  nn::NamedTensors frozen_;  ///< parameters that did not require grad at the beginning
  std::vector<Leaf> leaves_;
  std::vector<DType> dtypes_;
  Device device_;
  std::vector<Bucket> buckets_;
  std::unique_ptr<ModelBuffers> buffers_;  ///< empty: nothing is done about them

  std::optional<std::size_t> forward_hook_;
  int no_sync_depth_ = 0;
  bool is_reduced_ = true;  ///< this backward
  bool has_held_ = false;
  int local_steps_ = 0;  ///< steps since the last reduced backward
  int part_ = 0;
  std::size_t next_bucket_ = 0;     ///< buckets before it have been started
  std::vector<std::size_t> ready_;  ///< in the order in which gradients came
  bool is_layout_fixed_ = false;    ///< buckets stay as they are
  bool is_sharded_ = false;
  std::vector<ShardRange> shard_ranges_;
  std::vector<Tensor> shard_leaves_;
};

}  // namespace mezzo::dist
