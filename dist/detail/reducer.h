// Reducer: what a DataParallel puts in the place of `.grad`: buckets of gradients, which are reduced as they
// become full. Also the place where a ShardedOptimizer gets its shards from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mezzo/autograd/gradient_receiver.h"
#include "mezzo/dist/data_parallel_options.h"
#include "mezzo/nn/module.h"

namespace mezzo::dist {

/// A run of elements of one parameter, in row-major order, and where they lie in a bucket.
struct ShardRange {
  std::size_t parameter = 0;  ///< index in Reducer::parameters()
  std::int64_t begin = 0, end = 0;
  std::size_t bucket = 0;
  std::int64_t offset = 0;  ///< elements from the bucket's beginning
};

class Reducer final : public autograd::GradientReceiver {
 public:
  Reducer(nn::Module& model, const DataParallelOptions& options);
  ~Reducer() override;

  void begin(std::span<const std::size_t> leaves) override;
  void receive(std::size_t leaf, Tensor gradient) override;
  void finish() override;
  void abandon() noexcept override;

  [[nodiscard]] const Group& group() const noexcept;
  [[nodiscard]] const DataParallelOptions& options() const noexcept;
  /// All that require grad, in the model's order, with their names.
  [[nodiscard]] const nn::NamedTensors& parameters() const noexcept;

  /// Takes part in the buffers' exchange before a forward, where this rank has no samples for a forward.
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
  struct State;
  /// The leaves' gradients come here from now on. Throws: StateError for a leaf that has a receiver.
  void attach();
  void detach() noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace mezzo::dist
