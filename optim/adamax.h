// Adamax: Adam with the largest gradient in the place of the mean square.
#pragma once

#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::optim {

/// torch.optim.Adamax's options, and two for 16-bit parameters (MasterWeights).
struct AdamaxOptions {
  static constexpr std::string_view kOptimizer = "Adamax";
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
  MasterWeights master_weights = MasterWeights::none;
  bool stochastic_rounding = false;

  MEZZO_FIELDS(AdamaxOptions, lr, beta1, beta2, eps, weight_decay, maximize, master_weights,
               stochastic_rounding)
  /// Throws: ValueError: lr, eps, weight_decay >= 0 and finite; betas in [0, 1).
  void check() const;
};

extern template class TypedOptimizer<AdamaxOptions>;  // in the library, and not in every file that uses it

/// g' = g + weight_decay p; m = beta1 m + (1 - beta1) g'; u = max(beta2 u, |g'| + eps), a NaN winning; p -=
/// lr / (1 - beta1^t) * m / u. Sources: Kingma & Ba 2015, section 7.1; torch.optim.Adamax.
using Adamax = TypedOptimizer<AdamaxOptions>;

}  // namespace mezzo::optim
