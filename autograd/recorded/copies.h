// The 16-bit copies that a captured CUDA graph uses (core/cuda/graph.h). They are the graph's own: what
// happens to a leaf's copies between replays, by eager steps, regions that end, or graphs of autograd that
// hold them, does not touch the memory that the graph reads.
#pragma once

#include <deque>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/core/replay/recording.h"
#include "mezzo/core/tensor.h"

namespace mezzo::autograd {

/// The copy as a tensor.
[[nodiscard]] Tensor half_tensor(const Ref<Storage>& copy, const TensorImpl& leaf, DType dtype);

/// A captured graph's copies. Where the graph reads a weight's 16-bit values before it writes the weight, no
/// cast is captured: each replay begins with a copy that equals the leaf. Most often the captured optimizer
/// step has left it so; else, when somebody else has written the leaf, it is cast anew into the same memory.
class RecordedCopies final : public mezzo::detail::ReplayedState {
 public:
  struct Copy {
    Ref<TensorImpl> leaf;
    DType dtype;
    Ref<Storage> memory;       ///< the leaf's, at capture
    Ref<Storage> entry;        ///< what the graph reads at its beginning; empty: it makes its copies itself
    HalfCopy now;              ///< as HalfCopy of a leaf, at this point of the capture
    bool fresh_after = false;  ///< the captured work leaves `entry` equal to the leaf
    bool fresh = false;        ///< `entry` equals version `version` of the leaf
    std::uint32_t version = 0;
  };

  /// The copies of this Recording, made at first need.
  [[nodiscard]] static RecordedCopies& of(mezzo::detail::Recording& recording);
  /// The leaf's copy of this dtype at this point of the capture, made at first need. Takes over the memory of
  /// `eager`, the leaf's own, unless somebody else has it; that one is dropped.
  [[nodiscard]] Copy& use(mezzo::detail::Recording& recording, const Tensor& leaf, DType dtype,
                          HalfCopy& eager);
  /// nullptr when the captured work has not asked for it.
  [[nodiscard]] Copy* find(const TensorImpl& leaf, DType dtype) noexcept;

  void recorded() override;
  void before_replay() override;
  void after_replay() noexcept override;

 private:
  std::deque<Copy> copies_;  // a deque, as callers keep references
};

}  // namespace mezzo::autograd
