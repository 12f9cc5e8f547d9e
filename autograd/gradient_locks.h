// Holding the gradients of many leaves at once: for optimizers, clipping and GradScaler, whose kernels work
// on all of them. A backward in another thread that would add to one waits until they are done, so each
// gradient is seen either with what that thread adds or without, never in between.
#pragma once

#include <span>
#include <vector>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/core/memory/pool.h"

namespace mezzo::autograd {

/// The locks of some leaves, held until it goes. The leaves have to outlive it.
class GradientLocks : mezzo::detail::NoCopy {
 public:
  /// Holds no lock yet.
  GradientLocks() noexcept = default;
  /// Locks `leaves`, of which some may be undefined or there twice.
  explicit GradientLocks(std::span<const Tensor> leaves);
  ~GradientLocks();
  /// For leaves that do not lie in a row: add() each of them, then lock() once.
  void add(const Tensor& leaf) { metas_.push_back(&ensure_meta(leaf)); }
  void lock();

 private:
  std::vector<AutogradMeta*, pool::Allocator<AutogradMeta*>> metas_;
  bool locked_ = false;
};

/// `.grad` of a leaf whose lock this thread holds: what grad() gives, without asking for the lock again.
[[nodiscard]] inline const Tensor& locked_grad(const Tensor& leaf) { return ensure_meta(leaf).grad; }

}  // namespace mezzo::autograd
