// RAdam: Adam whose first steps, while its mean square is uncertain, are plain momentum.
#pragma once

#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::optim {

/// torch.optim.RAdam's options, and two for 16-bit parameters (MasterWeights).
struct RAdamOptions {
  static constexpr std::string_view kOptimizer = "RAdam";
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  MasterWeights master_weights = MasterWeights::none;
  bool stochastic_rounding = false;

  MEZZO_FIELDS(RAdamOptions, lr, beta1, beta2, eps, weight_decay, decoupled_weight_decay, maximize,
               master_weights, stochastic_rounding)
  /// Throws: ValueError: lr, eps, weight_decay >= 0 and finite; betas in [0, 1).
  void check() const;
};

extern template class TypedOptimizer<RAdamOptions>;  // in the library, and not in every file that uses it

/// m and v as in Adam; m' = m / (1 - beta1^t); with R = 2 / (1 - beta2) - 1 and r = R - 2 t beta2^t / (1 -
/// beta2^t): while r <= 5, p -= lr m'; then p -= lr m' sqrt((r - 4) (r - 2) R / ((R - 4) (R - 2) r)) * sqrt(1
/// - beta2^t) / (sqrt(v) + eps). Decay: g += weight_decay p, or p *= 1 - lr weight_decay when decoupled.
/// Sources: Liu et al. 2020; torch.optim.RAdam.
using RAdam = TypedOptimizer<RAdamOptions>;

}  // namespace mezzo::optim
