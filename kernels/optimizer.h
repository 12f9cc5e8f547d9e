// One launch per parameter group: the update of many tensors, with everything a step needs in the same pass.
// It obeys a scaler's record, unscales gradients, and writes 16-bit copies beside the f32 values.
#pragma once

#include <array>
#include <span>

#include "mezzo/core/scaler_record.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// One parameter in a step. `value` is what the update is made on (the parameter, or its f32 master);
/// `copies` receive the new value rounded to their dtype; views without data are absent.
struct ParameterUpdate {
  View value;
  View gradient;
  std::array<View, 3> state;  ///< in the compute dtype of `value`
  std::array<View, 3> copies;
  std::int64_t* step = nullptr;  ///< updates so far, in device memory; advanced unless the step is skipped
};

/// What holds for a whole group. With a record: nothing at all is written when found_inf or error is set;
/// with `unscale`, gradients are multiplied by inv_scale and left so.
struct UpdateControl {
  const double* lr = nullptr;  ///< in device memory
  const ScalerRecord* record = nullptr;
  bool unscale = false;
  std::uint32_t* ticket = nullptr;  ///< CUDA only: in device memory, 0 before and after; one per group
};

/// Stochastic gradient descent (torch.optim.SGD). g' = g + weight_decay p; buf = momentum buf + (1 -
/// dampening) g' (g' itself the first time); p -= lr (nesterov: g' + momentum buf, else buf, else g').
/// state[0]: buf, absent without momentum.
struct SgdRule {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};
void sgd(Device device, std::span<const ParameterUpdate> updates, const SgdRule& rule,
         const UpdateControl& control);

/// Adam (Kingma & Ba 2015; torch.optim.Adam) and, with decoupled decay, AdamW (Loshchilov & Hutter 2019;
/// torch.optim.AdamW): m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p -= lr / (1 - b1^t) * m / (sqrt(v) /
/// sqrt(1 - b2^t) + eps). Decay: g += wd p, or p *= 1 - lr wd when decoupled. state: m, v, and with amsgrad
/// the largest v so far.
struct AdamRule {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false, amsgrad = false, maximize = false;
};
void adam(Device device, std::span<const ParameterUpdate> updates, const AdamRule& rule,
          const UpdateControl& control);

}  // namespace mezzo::kernels
