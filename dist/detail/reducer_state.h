// The state of a Reducer: its parameters, what no_sync() holds back of their gradients, buckets, and how far
// the step is. Internal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mezzo/dist/detail/bucket.h"
#include "mezzo/dist/detail/model_buffers.h"
#include "mezzo/dist/detail/reducer.h"

namespace mezzo::dist {

/// Gradients of one parameter that no_sync() has held back.
struct HeldGradient {
  Tensor local;  ///< their sum; undefined: none
  Tensor shown;  ///< the `.grad` that holds them; another one there means that they were dropped
  Tensor base;   ///< `.grad` before them, reduced already; `shown` is the sum of both then
};

struct Reducer::State {
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

  State(nn::Module& module, const DataParallelOptions& given);

  [[nodiscard]] bool has_parts() const noexcept { return options.virtual_parts > 0; }
  [[nodiscard]] int parts() const noexcept { return has_parts() ? options.virtual_parts / group.size() : 1; }
  /// Whether gradients go to `.grad` as they are: one process, nothing to cut or to add in a tree.
  [[nodiscard]] bool is_alone() const noexcept { return group.size() == 1 && !has_parts() && !is_sharded; }
  [[nodiscard]] const Tensor& parameter(std::size_t i) const { return parameters[i].second; }

  // In reducer_setup.cpp.
  /// Throws: ValueError, on all ranks, where models or options differ.
  void compare_models() const;
  /// Buckets for gradients that become ready in this order.
  void make_buckets(std::span<const std::size_t> order);
  /// After the first reduced backward: in the order in which rank 0's gradients became ready.
  void rebuild_buckets();
  [[nodiscard]] std::vector<ShardRange> shards_of(int rank) const;

  /// The model is called.
  void before_forward();

  // In reducer.cpp.
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

  nn::Module& model;
  DataParallelOptions options;
  Group group;
  nn::NamedTensors parameters;
  nn::NamedTensors frozen;  ///< parameters that did not require grad at the beginning
  std::vector<Leaf> leaves;
  std::vector<DType> dtypes;
  Device device;
  std::vector<Bucket> buckets;
  std::unique_ptr<ModelBuffers> buffers;  ///< empty: nothing is done about them

  std::optional<std::size_t> forward_hook;
  int no_sync_depth = 0;
  bool is_reduced = true;  ///< this backward
  bool has_held = false;
  int local_steps = 0;  ///< steps since the last reduced backward
  int part = 0;
  std::size_t next_bucket = 0;     ///< buckets before it have been started
  std::vector<std::size_t> ready;  ///< in the order in which gradients came
  bool is_layout_fixed = false;    ///< buckets stay as they are
  bool is_sharded = false;
  std::vector<ShardRange> shard_ranges;
  std::vector<Tensor> shard_leaves;
};

}  // namespace mezzo::dist
