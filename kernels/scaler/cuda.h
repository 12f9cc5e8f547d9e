// What kernels/scaler/scaler.h does on a CUDA device. A fault of the device (core/cuda/fault.h) counts as a
// gradient that is not finite.
#pragma once

#include "mezzo/kernels/scaler/scaler.h"

namespace mezzo::kernels::cuda {

void check_finite(Device device, std::span<const View> gradients, ScalerRecord* record, Owners owners);
void unscale(Device device, std::span<const View> gradients, ScalerRecord* record, Owners owners);
void update_scale(Device device, ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
                  const ScaleRule& rule);
void set_scale(Device device, ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
               float value);
void set_scale_from(Device device, ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
                    const float* value);

}  // namespace mezzo::kernels::cuda
