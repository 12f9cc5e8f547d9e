// DataParallel: the same model in every process, each with its share of a batch; gradients are reduced while
// backward still runs.
//   dist::DataParallel parallel(net);                  // parameters are now rank 0's
//   for (const auto& [x, y] : loader) {                // this process's share
//     optimizer.zero_grad();
//     loss_fn(net(x), y).backward();                   // `.grad`: the mean over all processes
//     optimizer.step();
//   }
// The rest of a loop is the same as in one process: autocast, GradScaler (what is not finite on one rank is
// so on all, hence all skip), clipping, schedules.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/dist/data_parallel_options.h"
#include "mezzo/dist/group.h"
#include "mezzo/nn/module.h"

namespace mezzo::dist {

class Reducer;  // dist/detail/reducer.h

/// Makes the backward of a model's parameters reduce their gradients over the ranks, while it lives. All
/// ranks make it, of equal models (names, shapes and dtypes of parameters and buffers are compared; values
/// become rank 0's), and then run the same backwards. The model outlives it. No backward of the model runs on
/// two threads at once.
///
/// Each backward outside of no_sync() reduces its gradients, with what no_sync() has held back before, and
/// adds the result to the `.grad` that was there: so what was reduced once is not reduced again.
///
/// Buckets are filled from the last parameter to the first in the first step; then in the order in which rank
/// 0's gradients became ready. They are reduced one after the other, the same on all ranks. `.grad` is
/// row-major, a view into a bucket. A backward that throws has changed no `.grad`.
///
/// With a group of one process there are no buckets, and `.grad` is what it is without a DataParallel.
///
/// Throws: ValueError, on all ranks, with the first difference of two models or of their options; for options
/// that cannot go together (virtual_parts with a 16-bit reduce_dtype; reduction min or max), or do not fit
/// the number of ranks; for a model without parameters that require grad. StateError for a model that has a
/// DataParallel. From backward(): AutogradError for unused parameters, which it names, and for create_graph;
/// StateError when parameters were written while no_sync() held gradients back or between the parts of a
/// step, and when they were moved, converted or unfrozen since. Source:
/// torch.nn.parallel.DistributedDataParallel.
class DataParallel : mezzo::detail::NoCopy {
 public:
  explicit DataParallel(nn::Module& model, const DataParallelOptions& options = {});
  template <class M>
  requires requires(const M& model) {
    { *model } -> std::convertible_to<nn::Module&>;
  }
  explicit DataParallel(const M& model, const DataParallelOptions& options = {})
      : DataParallel(static_cast<nn::Module&>(*model), options) {}
  /// Backward fills `.grad` as without it again.
  ~DataParallel();

  /// While it lives, backward adds to this rank's `.grad` alone; the first backward behind it reduces the
  /// sum. For accumulation. zero_grad() drops what was held back. They may be nested.
  /// Rank 0 warns of a loop that never ends it: several optimizer steps in which nothing was reduced.
  class NoSync : mezzo::detail::NoCopy {
   public:
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
