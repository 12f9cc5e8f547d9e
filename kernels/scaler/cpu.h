// What kernels/scaler/scaler.h does on the CPU, with records in host memory.
#pragma once

#include "mezzo/kernels/scaler/scaler.h"

namespace mezzo::kernels::cpu {

void check_finite(std::span<const View> gradients, ScalerRecord* record, Owners owners);
void unscale(std::span<const View> gradients, ScalerRecord* record, Owners owners);
void update_scale(ScalerRecord* main, std::span<const ScalerRecord* const> optimizers, const ScaleRule& rule);
void set_scale(ScalerRecord* main, std::span<const ScalerRecord* const> optimizers, float value);
void set_scale_from(ScalerRecord* main, std::span<const ScalerRecord* const> optimizers, const float* value);

}  // namespace mezzo::kernels::cpu
