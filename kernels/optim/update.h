// The front end of optimizers: one pass over all parameters of a group, with everything a step needs in it.
// It obeys a scaler's record, unscales gradients, and writes 16-bit copies beside the f32 values.
#pragma once

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/optim/cpu_update.h"
#include "mezzo/kernels/optim/update_rule.h"
#if MEZZO_DEVICE_CODE
#include "mezzo/kernels/optim/cuda_update.h"
#endif

namespace mezzo::kernels {

/// Updates every parameter by the functor F<T> (kernels/optim/update_rule.h), T being f64 for f64 parameters
/// and f32 for all others; advances their step counts. On CUDA one launch for as many parameters as fit into
/// a kernel's arguments.
template <template <class> class F, class Rule, bool kDeviceCode = MEZZO_DEVICE_CODE>
void update(Device device, std::span<const ParameterUpdate> updates, const Rule& rule,
            const UpdateControl& control) {
  MEZZO_ON_CUDA(cuda::update<F>(device, updates, rule, control))
  cpu::update<F>(updates, rule, control);
}

/// The update of an algorithm that is one functor.
template <template <class> class F, class Rule>
void update_by(const Rule& rule, Device device, std::span<const ParameterUpdate> updates,
               const UpdateControl& control) {
  update<F>(device, updates, rule, control);
}

}  // namespace mezzo::kernels
