// grid_sample and its two gradients, on the device at hand.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/resample/grid_modes.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

// --- where it reads, along one axis: coordinates become places; padding decides about coordinates outside.
// Once for the CPU's loops and the CUDA kernels; the conventions are PyTorch's.

struct GridRule {
  GridSampleMode mode = GridSampleMode::bilinear;
  GridPadding padding = GridPadding::zeros;
  /// -1 and 1 are the centres of the first and the last place; else their outer edges.
  bool align_corners = false;
};

/// A place along an axis, and its derivative by the coordinate.
template <class T>
struct GridPosition {
  T at, slope;
};

namespace detail {

/// Mirrored until it is between the ends, doubled so that they are integers: -1 / 2 is the edge of place 0.
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE GridPosition<T> mirrored(GridPosition<T> p, std::int64_t twice_low,
                                                                    std::int64_t twice_high) {
  if (twice_low == twice_high) return {T(0), T(0)};
  const T low = static_cast<T>(twice_low) / T(2), span = static_cast<T>(twice_high - twice_low) / T(2);
  const T from_low = p.at - low, distance = std::fabs(from_low);
  const T beyond = std::fmod(distance, span), turns = std::floor(distance / span);
  const bool back = std::fmod(turns, T(2)) != T(0);
  const T slope = (from_low < T(0)) != back ? -p.slope : p.slope;
  return {(back ? span - beyond : beyond) + low, slope};
}

/// In [0, last]; NaN counts as 0. Slope 0 where it was clipped, or lies on an end.
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE GridPosition<T> clipped(GridPosition<T> p, T last) {
  if (!(p.at > T(0))) return {T(0), T(0)};
  if (p.at >= last) return {last, T(0)};
  return p;
}

}  // namespace detail

/// Where `coordinate` lies among the `size` places of an axis, at least 1.
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE GridPosition<T> grid_position(T coordinate, std::int64_t size,
                                                                         const GridRule& rule) {
  const T places = static_cast<T>(size), last = static_cast<T>(size - 1);
  GridPosition<T> p{((coordinate + T(1)) * places - T(1)) / T(2), places / T(2)};
  if (rule.align_corners) p = {(coordinate + T(1)) / T(2) * last, last / T(2)};
  if (rule.padding == GridPadding::zeros) return p;
  if (rule.padding == GridPadding::reflection) {
    p = rule.align_corners ? detail::mirrored(p, 0, 2 * (size - 1)) : detail::mirrored(p, -1, 2 * size - 1);
  }
  return detail::clipped(p, last);
}

/// The places around a position, `low` and `low` + 1 (either may be outside), the weight of the upper one,
/// and its derivative by the coordinate.
template <class T>
struct GridCell {
  static constexpr std::int64_t kOutside = -2;  ///< as `low`: neither place is there
  std::int64_t low;
  T upper, slope;
};

template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE GridCell<T> grid_cell(T coordinate, std::int64_t size,
                                                                 const GridRule& rule) {
  const GridPosition<T> p = grid_position(coordinate, size, rule);
  // False for NaN too, so what becomes an integer is one that fits.
  if (!(p.at >= T(-1) && p.at < static_cast<T>(size))) return {GridCell<T>::kOutside, T(0), T(0)};
  if (rule.mode == GridSampleMode::nearest) return {static_cast<std::int64_t>(std::rint(p.at)), T(0), T(0)};
  const T below = std::floor(p.at);
  return {static_cast<std::int64_t>(below), p.at - below, p.slope};
}

/// Corner k of a cell is at the upper place of axis a where bit a of k is set. kAxes is 2 or 3, axis 0 the
/// last dim.
template <class T, int kAxes>
struct GridCorners {
  GridCell<T> cells[kAxes];

  /// The corner's place in an array whose axes have these sizes and strides, or -1 outside.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t offset(int k, const std::int64_t* sizes,
                                                                 const std::int64_t* strides) const {
    std::int64_t offset = 0;
    bool inside = true;
    for (int a = 0; a < kAxes; ++a) {
      const std::int64_t place = cells[a].low + (k >> a & 1);
      inside = inside && place >= 0 && place < sizes[a];
      offset += place * strides[a];
    }
    return inside ? offset : -1;
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T weight(int k) const {
    T weight = T(1);
    for (int a = 0; a < kAxes; ++a) weight *= (k >> a & 1) != 0 ? cells[a].upper : T(1) - cells[a].upper;
    return weight;
  }
};

/// The derivatives of an interpolated value by its position along each axis, given the values at the corners
/// and the weights of the upper places.
template <class T, int kAxes>
MEZZO_HD MEZZO_ALWAYS_INLINE void corner_slopes(const T* values, const T* upper, T* slopes) {
  for (int a = 0; a < kAxes; ++a) {
    T slope = T(0);
    for (int k = 0; k < 1 << kAxes; ++k) {
      if ((k >> a & 1) != 0) continue;
      T weight = T(1);
      for (int b = 0; b < kAxes; ++b) {
        if (b != a) weight *= (k >> b & 1) != 0 ? upper[b] : T(1) - upper[b];
      }
      slope += weight * (values[k | 1 << a] - values[k]);
    }
    slopes[a] = slope;
  }
}

// --- the kernels

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
