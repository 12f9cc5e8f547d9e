// DataParallel: the same model in every process, each with its share of a batch; gradients are reduced while
// backward still runs.
//   dist::DataParallel parallel(net);                  // parameters are now rank 0's
//   for (const auto& [x, y] : loader) {                // this process's share
//     optimizer.zero_grad();
//     loss_fn(net(x), y).backward();                   // `.grad`: the mean over all processes
//     optimizer.step();
//   }
// The rest of a loop is that of one process: autocast, GradScaler (what is not finite on one rank is so on
// all, hence all skip), clipping, schedules.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/dist/collectives.h"
#include "mezzo/nn/module.h"

namespace mezzo::dist {

class Reducer;  // dist/detail/reducer.h

struct DataParallelOptions {
  std::optional<Group> group = {};  ///< default: world()
  /// What `.grad` is of the gradients of all ranks: mean, or sum, for losses that are divided by the samples
  /// of all ranks (uneven batches).
  ReduceOp reduction = ReduceOp::mean;
  /// Gradients are reduced in buckets of this size, the first one smaller, as nothing can be reduced before
  /// it is full.
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  /// Lets a backward reach only some of the parameters, not the same on all ranks: the others count as zeros;
  /// one that no rank has reached keeps its `.grad`. Without it such a backward throws, and names them.
  bool find_unused_parameters = false;
  /// Gives all ranks rank 0's buffers (running statistics) before each forward in training mode that is going
  /// to be reduced.
  bool broadcast_buffers = true;
  /// f16 or bf16: gradients travel in it, and are added in f32. Halves the bytes of f32 ones.
  std::optional<DType> compression = {};
  /// Deterministic mode: a step is this many backward calls on all ranks together, a power of two and a
  /// multiple of the group's size (itself a power of two): parts() on each rank, those of rank r before those
  /// of r + 1. Gradients are added in one binary tree over the parts, so results do not depend, to the bit,
  /// on the number of ranks; mean divides by the number of parts. Buffers go into the same tree: each part
  /// begins with those of the step before, and the step ends with their mean. 0: off.
  int virtual_parts = 0;
};

/// Makes the backward of a model's parameters reduce their gradients over the ranks, while it lives. All
/// ranks make it, of equal models (names, shapes and dtypes of parameters and buffers are compared; values
/// become rank 0's), and then run the same backwards. No backward of the model runs on two threads at once.
///
/// Buckets are filled from the last parameter to the first in the first step; then in the order in which rank
/// 0's gradients became ready. They are reduced one after the other, the same on all ranks. `.grad` is a view
/// into a bucket.
///
/// Throws: ValueError, on all ranks, with the first difference of two models; for options that cannot go
/// together (virtual_parts with compression or find_unused_parameters; reduction min or max); for a model
/// without parameters that require grad. StateError for a model that has a DataParallel. From backward():
/// AutogradError for unused parameters, which it names, and for create_graph; StateError when parameters were
/// changed while no_sync() held gradients back. Source: torch.nn.parallel.DistributedDataParallel.
class DataParallel {
 public:
  explicit DataParallel(nn::Module& model, const DataParallelOptions& options = {});
  template <class M>
  requires requires(const M& model) {
    { *model } -> std::convertible_to<nn::Module&>;
  }
  explicit DataParallel(const M& model, const DataParallelOptions& options = {})
      : DataParallel(static_cast<nn::Module&>(*model), options) {}
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;
  /// Backward fills `.grad` as without it again.
  ~DataParallel();

  /// While it lives, backward adds to this rank's `.grad` alone; the first backward behind it reduces the
  /// sum. For accumulation.
  class NoSync {
   public:
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync();

   private:
    friend class DataParallel;
    explicit NoSync(Ref<Reducer> reducer);
    Ref<Reducer> reducer_;
  };
  /// Throws: StateError in deterministic mode, where parts() says what is reduced together.
  [[nodiscard]] NoSync no_sync();

  [[nodiscard]] const Group& group() const noexcept;
  /// Backward calls of this rank per step: 1, or in deterministic mode virtual_parts / group().size().
  [[nodiscard]] int parts() const noexcept;
  /// Bytes of each bucket, in the order in which they are reduced.
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const;
  [[nodiscard]] Reducer& reducer() const noexcept { return *reducer_; }

 private:
  Ref<Reducer> reducer_;
};

}  // namespace mezzo::dist
