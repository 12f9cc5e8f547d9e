// RMSprop: steps divided by a moving average of the gradient's size.
#pragma once

#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::optim {

/// torch.optim.RMSprop's options, and those of narrow parameters and moments (MasterWeights).
struct RMSpropOptions {
  static constexpr std::string_view kOptimizer = "RMSprop";
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
  MasterWeights master_weights = MasterWeights::none;
  bool stochastic_rounding = false;
  std::int64_t state_bits = 32;

  MEZZO_FIELDS(RMSpropOptions, lr, alpha, eps, weight_decay, momentum, centered, maximize, master_weights,
               stochastic_rounding, state_bits)
  /// Throws: ValueError: lr, eps, weight_decay, momentum >= 0 and finite; alpha in [0, 1].
  void check() const;
};

extern template class TypedOptimizer<RMSpropOptions>;  // in the library, and not in every file that uses it

/// g' = g + weight_decay p; v = alpha v + (1 - alpha) g'^2; size = sqrt(v) + eps, or, centered, with
/// a = alpha a + (1 - alpha) g', size = sqrt(v - a^2) + eps; buf = momentum buf + g' / size; p -= lr buf.
/// Sources: Hinton's lecture 6e (2012); centered: Graves 2013; torch.optim.RMSprop.
using RMSprop = TypedOptimizer<RMSpropOptions>;

}  // namespace mezzo::optim
