// Finds the op whose gradient first was not finite: the other half of the answer to "why was this step
// skipped".
#pragma once

#include <optional>
#include <string>

#include "mezzo/autograd/engine.h"

namespace mezzo::amp {

/// Watches every backward on this thread while it lives, and remembers the first op whose gradient function
/// produced inf or NaN:
///   amp::BackwardWatch watch;  scaler.scale(loss).backward();  if (watch.found()) ... watch.found()->op
/// Costs one host read per op: for a second look at a step that was skipped, not for every step.
class BackwardWatch final : public BackwardObserver {
 public:
  struct Found {
    std::string op;         ///< name of the op whose gradient it is
    std::size_t input = 0;  ///< which of its inputs the gradient belongs to
  };
  void after_vjp(const autograd::Node& node, std::span<const Tensor> gradients) override;
  [[nodiscard]] const std::optional<Found>& found() const noexcept { return found_; }

 private:
  std::optional<Found> found_;
};

}  // namespace mezzo::amp
