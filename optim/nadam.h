// NAdam: Adam with Nesterov's momentum, which grows towards beta1.
#pragma once

#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::optim {

/// torch.optim.NAdam's options. `pytorch_1_13`: the correction of that version, which counts mu(t) twice (M
/// mu(t) mu(t + 1) below), to go on with what it began. Two options are for 16-bit
/// parameters (MasterWeights).
struct NAdamOptions {
  static constexpr std::string_view kOptimizer = "NAdam";
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  bool pytorch_1_13 = false;
  MasterWeights master_weights = MasterWeights::none;
  bool stochastic_rounding = false;

  MEZZO_FIELDS(NAdamOptions, lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled_weight_decay,
               maximize, pytorch_1_13, master_weights, stochastic_rounding)
  /// Throws: ValueError: lr, eps, weight_decay, momentum_decay >= 0 and finite; betas in [0, 1).
  void check() const;
};

extern template class TypedOptimizer<NAdamOptions>;  // in the library, and not in every file that uses it

/// mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2), M the product of all so far (state "mu_product", in f64);
/// m and v as in Adam; p -= lr * ((1 - mu(t)) / (1 - M) * g + mu(t + 1) / (1 - M mu(t + 1)) * m) / (sqrt(v) /
/// sqrt(1 - beta2^t) + eps). Decay: g += weight_decay p, or p *= 1 - lr weight_decay when decoupled. Sources:
/// Dozat 2016; torch.optim.NAdam.
using NAdam = TypedOptimizer<NAdamOptions>;

}  // namespace mezzo::optim
