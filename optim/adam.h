// Adam and AdamW: one algorithm that differs in where the weight decay goes.
#pragma once

#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::optim {

/// torch.optim.Adam's (decoupled: AdamW's) options, and two for 16-bit parameters
/// (MasterWeights).
template <bool decoupled>
struct AdamOptionsOf {
  static constexpr std::string_view kOptimizer = decoupled ? "AdamW" : "Adam";
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = decoupled ? 1e-2 : 0;
  bool amsgrad = false;
  bool maximize = false;
  MasterWeights master_weights = MasterWeights::none;
  bool stochastic_rounding = false;
  std::int64_t state_bits = 32;

  MEZZO_FIELDS(AdamOptionsOf, lr, beta1, beta2, eps, weight_decay, amsgrad, maximize, master_weights,
               stochastic_rounding, state_bits)
  /// Throws: ValueError: lr, eps, weight_decay >= 0; betas in [0, 1).
  void check() const;
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;

// In the library, and not in every file that uses them.
extern template class TypedOptimizer<AdamOptions>;
extern template class TypedOptimizer<AdamWOptions>;

/// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, p -= lr / (1 - beta1^t) * m / (sqrt(v) /
/// sqrt(1 - beta2^t) + eps); with amsgrad the largest v so far in the place of v. Decay: g += weight_decay p,
/// or p *= 1 - lr weight_decay when decoupled. Sources: torch.optim.Adam, torch.optim.AdamW.
template <bool decoupled>
using AdamOf = TypedOptimizer<AdamOptionsOf<decoupled>>;

/// Kingma & Ba 2015; weight decay is added to the gradient.
using Adam = AdamOf<false>;
/// Loshchilov & Hutter 2019; weight decay shrinks the parameter itself.
using AdamW = AdamOf<true>;

}  // namespace mezzo::optim
