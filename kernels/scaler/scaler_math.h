// The arithmetic of loss scaling, for every device: the non-finite test and the update rule of the scale.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/scaler/scaler_record.h"

namespace mezzo::kernels {

/// 1 when x is inf or NaN. x - x is 0 for every finite value and NaN for all others, on every device and
/// instruction set.
struct NonFiniteFn {
  template <class T>
  MEZZO_HD std::uint32_t operator()(T x) const {
    return x - x == T(0) ? 0U : 1U;
  }
};

/// g * inv_scale in the compute type.
struct UnscaleFn {
  float inv_scale;
  template <class T>
  MEZZO_HD T operator()(T gradient) const {
    return gradient * static_cast<T>(inv_scale);
  }
};

/// f32(1 / f64(scale)): one rounding, whatever the device's f32 division does.
MEZZO_HD inline float inverse_scale(float scale) {
  return static_cast<float>(1.0 / static_cast<double>(scale));
}

/// See kernels::update_scale.
struct UpdateScaleFn {
  double growth_factor, backoff_factor, min_scale, max_scale;
  std::int64_t growth_interval, hysteresis;
  MEZZO_HD void operator()(ScalerRecord& record, bool found_inf) const {
    const double scale = static_cast<double>(record.scale);
    count(record, found_inf);
    if (found_inf) {
      // In f32 as the scale is: a floor that f32 cannot hold would never be met.
      const float floor = static_cast<float>(min_scale);
      const float smaller = static_cast<float>(scale * backoff_factor);
      record.at_floor = record.scale <= floor ? 1U : 0U;
      if (record.overflows < ScalerRecord::kLargestTracker) ++record.overflows;
      if (record.at_floor == 0 && record.overflows >= hysteresis)
        record.scale = smaller > floor ? smaller : floor;
      record.growth_tracker = 0;
    } else {
      if (record.growth_tracker < ScalerRecord::kLargestTracker) ++record.growth_tracker;
      record.overflows = 0;
      record.at_floor = 0;
      if (record.growth_tracker >= growth_interval) {
        const float larger = static_cast<float>(scale * growth_factor);
        const bool finite = larger - larger == 0.0F;
        if (finite && static_cast<double>(larger) <= max_scale) record.scale = larger;
        record.growth_tracker = 0;
      }
    }
    record.inv_scale = inverse_scale(record.scale);
    record.found_inf = 0;
  }
  /// Counts one iteration as good or skipped.
  MEZZO_HD static void count(ScalerRecord& record, bool found_inf) {
    if (found_inf)
      ++record.steps_skipped;
    else
      ++record.steps_ok;
  }
};

/// See kernels::set_scale.
struct SetScaleFn {
  MEZZO_HD void operator()(ScalerRecord& record, float scale) const {
    record.scale = scale;
    record.inv_scale = inverse_scale(scale);
    record.found_inf = 0;
    record.at_floor = 0;
  }
};

}  // namespace mezzo::kernels
