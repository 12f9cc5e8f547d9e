// The loss scaler's state as kernels see it: one plain record in device memory, which amp makes and optim
// obeys.
#pragma once

#include <cstdint>

namespace mezzo {

/// State of a GradScaler, or of one optimizer under it, in device memory. Optimizer kernels return at once
/// when `found_inf` is set, and multiply gradients by `inv_scale` otherwise.
struct ScalerRecord {
  float scale = 1;
  float inv_scale = 1;  ///< f32(1 / f64(scale))
  /// 1 when a gradient checked since the last update was not finite, or a kernel met an index out of range.
  std::uint32_t found_inf = 0;
  std::int32_t growth_tracker = 0;  ///< good updates since the scale last changed, up to kLargestTracker
  std::int32_t overflows = 0;       ///< updates in a row with a non-finite gradient, up to kLargestTracker
  std::uint64_t steps_ok = 0;       ///< updates without and ...
  std::uint64_t steps_skipped = 0;  ///< ... with a non-finite gradient
  std::uint32_t at_floor = 0;       ///< 1 when an overflow found the scale at its lower bound already
  static constexpr std::int32_t kLargestTracker = 0x7fffffff;  ///< a longer growth_interval never ends
  static constexpr std::uint32_t kAllFinite = ~0U;
  /// Index, in Optimizer::parameters(), of the first parameter whose gradient was not finite.
  std::uint32_t first_nonfinite = kAllFinite;
};

}  // namespace mezzo
