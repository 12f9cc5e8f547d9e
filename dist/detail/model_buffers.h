// The buffers of a model over the ranks: rank 0's for all, or, where a step has parts, the mean over them.
// Internal.
#pragma once

#include <vector>

#include "mezzo/dist/detail/bucket.h"
#include "mezzo/dist/group.h"
#include "mezzo/nn/module.h"

namespace mezzo::dist {

/// Gives all ranks rank 0's values, several tensors at a time.
void broadcast_values(const std::vector<Tensor>& tensors, const Group& group);

/// Looks after the buffers while forward and backward change them.
class ModelBuffers {
 public:
  /// parts: of a step, on all ranks together; 0: rank 0's are everybody's.
  ModelBuffers(std::vector<Tensor> buffers, Group group, int parts);

  /// A forward of the model begins whose backward will be reduced.
  void before_forward();
  /// A part's backward has ended.
  void end_part(int part);
  /// The last part of the step on this rank has ended.
  void end_step();
  /// The parts so far do not count.
  void abandon() noexcept;

 private:
  std::vector<Tensor> buffers_;
  Group group_;
  int parts_;
  std::vector<Tensor> at_begin_;  ///< values before the step's first part; empty: not yet
  bool is_new_part_ = true;
  std::vector<Bucket> sums_;  ///< of floating ones, one for each dtype
};

}  // namespace mezzo::dist
