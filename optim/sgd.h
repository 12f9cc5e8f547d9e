// Stochastic gradient descent.
#pragma once

#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::optim {

/// torch.optim.SGD's options, and those of narrow parameters and moments (MasterWeights).
struct SGDOptions {
  static constexpr std::string_view kOptimizer = "SGD";
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  MasterWeights master_weights = MasterWeights::none;
  bool stochastic_rounding = false;
  std::int64_t state_bits = 32;

  MEZZO_FIELDS(SGDOptions, lr, momentum, dampening, weight_decay, nesterov, maximize, master_weights,
               stochastic_rounding, state_bits)
  /// Throws: ValueError: lr, momentum, weight_decay >= 0; nesterov needs momentum > 0 and dampening 0.
  void check() const;
};

extern template class TypedOptimizer<SGDOptions>;  // in the library, and not in every file that uses it

/// g' = g + weight_decay p; buf = momentum buf + (1 - dampening) g' (g' itself the first time); p -= lr *
/// (nesterov: g' + momentum buf, else buf, else g'). Source: torch.optim.SGD.
using SGD = TypedOptimizer<SGDOptions>;

}  // namespace mezzo::optim
