// Options of DataParallel (dist/data_parallel.h).
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/dist/collectives.h"

namespace mezzo::dist {

struct DataParallelOptions {
  std::optional<Group> group = {};  ///< default: world()
  /// How the gradients of all ranks become `.grad`: mean, or sum, for losses that are divided by the samples
  /// of all ranks (uneven batches).
  ReduceOp reduction = ReduceOp::mean;
  /// Gradients are reduced in buckets of this size, the first one smaller, as nothing can be reduced before
  /// it is full.
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  /// Lets a backward reach only some of the parameters, not the same on all ranks: gradients of the other
  /// parameters count as zeros; one that no rank has reached keeps its `.grad`. On CUDA ranks agree about
  /// that by a host read per step, unless there is a CPU transport. Without it such a backward throws, and
  /// names them. Parameters that do not require grad now are not asked for.
  bool find_unused_parameters = false;
  /// Gives all ranks rank 0's buffers (running statistics) before each call of the model, net(x), in training
  /// mode and outside of no_sync().
  bool broadcast_buffers = true;
  /// f32, or f16 or bf16: f32 gradients travel in it, which halves their bytes, and are added in f32. `.grad`
  /// is the sum or mean, rounded to it once more. Values that f16 cannot hold are inf then, on all ranks.
  /// Gradients of other dtypes travel as they are. Source: reduce_dtype of PyTorch's FSDP.
  DType reduce_dtype = DType::f32;
  /// Deterministic mode: a step is this many backward calls on all ranks together, a power of two and a
  /// multiple of the group's size (itself a power of two): parts() on each rank, rank r's parts before rank r
  /// + 1's. Gradients are added in one binary tree over the parts, so results do not depend, to the bit, on
  /// the number of ranks; mean divides by the number of parts. Buffers go into the same tree: each part
  /// begins with the buffers of the step before, and the step ends with the mean of floating buffers (integer
  /// buffers are one part's). An exception in a backward drops the step's parts so far. 0: off.
  int virtual_parts = 0;
};

/// The options, as a trainer takes them: `.parallel = dist::data_parallel()`.
[[nodiscard]] inline DataParallelOptions data_parallel(DataParallelOptions options = {}) { return options; }

}  // namespace mezzo::dist
