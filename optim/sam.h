// SAM: sharpness-aware minimization around any optimizer.
#pragma once

#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/core/tensor.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

struct SAMOptions {
  double rho = 0.05;      ///< how far from the weights the second gradient is taken, finite, >= 0
  bool adaptive = false;  ///< ASAM: distances in proportion to each weight
};

/// Steps along the gradient at the worst point near the weights w, w + rho g / |g|, with the norm over all
/// parameters; ASAM takes w + rho w^2 g / |w g|. Each step evaluates the model twice. Nothing is read back.
///   optim::SGD sgd(net, {.lr = 0.1, .momentum = 0.9});
///   optim::SAM sam(sgd);
///   sam.step([&] { sgd.zero_grad(); const Tensor loss = ...; loss.backward(); return loss; });
/// Under a GradScaler, whose scale does not change the direction, the closure scales the loss:
///   scaler.step(sam, [&] { sgd.zero_grad(); const Tensor loss = scaler.scale(...); loss.backward(); return
///   loss; });
/// Where a first gradient is inf or NaN the weights stay, and the scaler skips the step. Source: Foret et
/// al., arXiv:2010.01412; Kwon et al., arXiv:2102.11600.
class SAM {
 public:
  /// `optimizer` must live as long. Throws: ValueError for options out of range, and for a ShardedOptimizer.
  explicit SAM(Optimizer& optimizer, const SAMOptions& options = {});

  /// One step. `closure` clears gradients, computes the loss, calls backward and returns the loss; it is
  /// called twice, and its first loss is returned. When it throws, the weights are what they were. Throws:
  /// ValueError for an empty closure, and what the optimizer throws.
  Tensor step(const mezzo::detail::Function<Tensor()>& closure);
  /// step() without the optimizer's update: leaves the gradients of the worst point. `look` is called in
  /// between, with the gradients at the weights.
  Tensor evaluate(const mezzo::detail::Function<Tensor()>& closure,
                  const mezzo::detail::Function<void()>& look = {});
  /// Moves the weights to the worst point by their gradients, which a scaler does not see unless its step
  /// gets a closure. Throws: StateError when they are there already, and when no parameter has a gradient.
  void ascend();
  /// Moves them back, bit for bit. Throws: StateError unless ascend() came before.
  void restore();
  [[nodiscard]] Optimizer& optimizer() const noexcept { return optimizer_; }

 private:
  Optimizer& optimizer_;
  SAMOptions options_;
  std::vector<std::pair<Tensor, Tensor>> origin_;  ///< parameters that were moved, and what they were
};

}  // namespace mezzo::optim
