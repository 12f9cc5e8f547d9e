// Adadelta: steps of the size that the last steps had.
#pragma once

#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::optim {

/// torch.optim.Adadelta's options, and two for 16-bit parameters (MasterWeights).
struct AdadeltaOptions {
  static constexpr std::string_view kOptimizer = "Adadelta";
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
  MasterWeights master_weights = MasterWeights::none;
  bool stochastic_rounding = false;

  MEZZO_FIELDS(AdadeltaOptions, lr, rho, eps, weight_decay, maximize, master_weights, stochastic_rounding)
  /// Throws: ValueError: lr, eps, weight_decay >= 0 and finite; rho in [0, 1].
  void check() const;
};

extern template class TypedOptimizer<AdadeltaOptions>;  // in the library, and not in every file that uses it

/// g' = g + weight_decay p; v = rho v + (1 - rho) g'^2; d = sqrt(u + eps) / sqrt(v + eps) * g'; u = rho u +
/// (1 - rho) d^2; p -= lr d. Sources: Zeiler 2012; torch.optim.Adadelta.
using Adadelta = TypedOptimizer<AdadeltaOptions>;

}  // namespace mezzo::optim
