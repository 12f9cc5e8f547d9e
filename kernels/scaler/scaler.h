// The kernels of loss scaling: find non-finite gradients, unscale them, and move the scale. They work on
// ScalerRecords in device memory, so no step of a training loop has to wait for the host.
#pragma once

#include <span>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/scaler/scaler_record.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Which parameters gradients are of: gradient i is of parameter parameters[i], which never fall; or, where
/// they are left out, of parameter i.
struct Owners {
  std::span<const std::uint32_t> parameters = {};
  [[nodiscard]] std::uint32_t of(std::size_t i) const {
    return parameters.empty() ? static_cast<std::uint32_t>(i) : parameters[i];
  }
};

/// Sets record->found_inf to 1 when an element of a gradient is inf or NaN, and lowers first_nonfinite to the
/// first such gradient's parameter. Gradients are floating, of any layout and dtype, all on `device`; none is
/// written. The check is on the stored value, before any scaling.
MEZZO_KERNEL(check_finite, void(std::span<const View> gradients, ScalerRecord* record, Owners owners));

/// check_finite, and every element times record->inv_scale, computed in f32 (f64 for f64) and rounded once;
/// with inv_scale 1 exactly nothing is written. Elements that are inf or NaN stay so.
MEZZO_KERNEL(unscale, void(std::span<const View> gradients, ScalerRecord* record, Owners owners));

/// How the scale moves.
struct ScaleRule {
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  std::int64_t hysteresis = 1;  ///< overflows in a row from which the scale is lowered
  double min_scale = 0;
  double max_scale = 0x1.fffffep127;  ///< the largest f32
};

/// One update of `main` from what was found by each optimizer since the last one. Any found_inf: from the
/// hysteresis-th in a row on, scale = f32(scale * backoff), not below f32(min_scale) (a scale that is there
/// already stays and sets at_floor), tracker 0, steps_skipped + 1. Else tracker + 1, and when that reaches
/// the interval: scale = f32(scale * growth) if finite and not above max_scale, tracker 0; steps_ok + 1.
/// inv_scale follows.
MEZZO_KERNEL(update_scale, void(ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
                                const ScaleRule& rule));

/// scale = value, inv_scale = f32(1 / f64(scale)); found_inf and at_floor are cleared, the tracker stays. If
/// any optimizer took part since the last update, the iteration counts as good or skipped.
MEZZO_KERNEL(set_scale,
             void(ScalerRecord* main, std::span<const ScalerRecord* const> optimizers, float value));
/// set_scale from one f32 in device memory, taken as it is.
MEZZO_KERNEL(set_scale_from,
             void(ScalerRecord* main, std::span<const ScalerRecord* const> optimizers, const float* value));

}  // namespace mezzo::kernels
