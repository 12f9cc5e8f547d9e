// Lion: steps of one size, in the direction of the sign of a moving average.
#pragma once

#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::optim {

/// The options of Chen et al. 2023, whose weight decay is always decoupled, and those of narrow
/// parameters and moments (MasterWeights).
struct LionOptions {
  static constexpr std::string_view kOptimizer = "Lion";
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  bool maximize = false;
  MasterWeights master_weights = MasterWeights::none;
  bool stochastic_rounding = false;
  std::int64_t state_bits = 32;

  MEZZO_FIELDS(LionOptions, lr, beta1, beta2, weight_decay, maximize, master_weights, stochastic_rounding,
               state_bits)
  /// Throws: ValueError: lr, weight_decay >= 0 and finite; betas in [0, 1).
  void check() const;
};

extern template class TypedOptimizer<LionOptions>;  // in the library, and not in every file that uses it

/// p = (1 - lr weight_decay) p - lr sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g (state
/// "exp_avg"); sign(0) = 0, and a NaN shows in p. Source: Chen et al. 2023, algorithm 2.
using Lion = TypedOptimizer<LionOptions>;

}  // namespace mezzo::optim
