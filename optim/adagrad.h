// Adagrad: steps divided by the root of the sum of all squared gradients so far.
#pragma once

#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::optim {

/// torch.optim.Adagrad's options, and two for 16-bit parameters (MasterWeights).
struct AdagradOptions {
  static constexpr std::string_view kOptimizer = "Adagrad";
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
  MasterWeights master_weights = MasterWeights::none;
  bool stochastic_rounding = false;

  MEZZO_FIELDS(AdagradOptions, lr, lr_decay, weight_decay, initial_accumulator_value, eps, maximize,
               master_weights, stochastic_rounding)
  /// Throws: ValueError unless all numbers are finite and >= 0.
  void check() const;
};

extern template class TypedOptimizer<AdagradOptions>;  // in the library, and not in every file that uses it

/// g' = g + weight_decay p; sum += g'^2, from initial_accumulator_value on; p -= lr / (1 + (t - 1) lr_decay)
/// * g' / (sqrt(sum) + eps). Sources: Duchi, Hazan & Singer 2011; torch.optim.Adagrad.
using Adagrad = TypedOptimizer<AdagradOptions>;

}  // namespace mezzo::optim
