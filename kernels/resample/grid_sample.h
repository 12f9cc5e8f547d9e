// grid_sample and its two gradients, on the device at hand.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/resample/grid_math.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Arrays: x [N, C, spatial...] and the result [N, C, places] are dense, both channels-last (N, spatial or
/// places, C) or (on a CUDA device) both row-major; the grid [N, places, axes] is dense and row-major.
/// Floating dtypes in any mix.
struct GridSampleShape {
  static constexpr int kMostAxes = 3;
  std::int64_t batch = 0, channels = 1, places = 0;
  int axes = 2;                                        ///< 2 or 3
  std::array<std::int64_t, kMostAxes> sizes{1, 1, 1};  ///< of x along axes 0 (the last dim), 1, (2); >= 1
  bool channels_last = false;
  GridRule rule = {};

  /// Elements of a channel of x.
  [[nodiscard]] std::int64_t plane() const { return sizes[0] * sizes[1] * sizes[2]; }
  /// Elements of x from a place along an axis to the next.
  [[nodiscard]] std::array<std::int64_t, kMostAxes> strides() const {
    const std::int64_t unit = place_stride();
    return {unit, unit * sizes[0], unit * sizes[0] * sizes[1]};
  }
  /// Elements from a place of a channel to the next, and from a channel to the next where it has `places`.
  [[nodiscard]] std::int64_t place_stride() const { return channels_last ? channels : 1; }
  [[nodiscard]] std::int64_t channel_stride(std::int64_t of) const { return channels_last ? 1 : of; }
  /// Corners that a place reads.
  [[nodiscard]] int corners() const { return rule.mode == GridSampleMode::nearest ? 1 : 1 << axes; }
};

/// out = x sampled at the grid, in `compute` (f32 or f64), rounded once.
MEZZO_KERNEL(grid_sample, void(const GridSampleShape& shape, const View& out, const View& x, const View& grid,
                               DType compute));

/// out [like x] = its gradient, given the result's gradient. It is added up in row-major order of places and
/// corners, in `compute` on the CPU and in f64 on CUDA: bits do not depend on threads.
MEZZO_KERNEL(grid_sample_input_gradient, void(const GridSampleShape& shape, const View& out, const View& grad,
                                              const View& grid, DType compute));

/// out [like the grid] = its gradient: summed over channels in f64 (on the CPU in groups). Not for nearest.
MEZZO_KERNEL(grid_sample_grid_gradient, void(const GridSampleShape& shape, const View& out, const View& grad,
                                             const View& x, const View& grid, DType compute));

}  // namespace mezzo::kernels
