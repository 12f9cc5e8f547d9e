// interpolate and its gradient, on the device at hand. Both are linear maps, dim by dim, and one is the
// other's transpose.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/resample/interpolate_math.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Arrays [outer, spatial..., inner], dense and row-major: inner is 1 for row-major tensors [N, C, ...], and
/// C for channels-last tensors. Missing spatial dims stand in front, with sizes 1. Sizes are at least 1.
struct InterpolateShape {
  static constexpr std::size_t kDims = 3;
  std::int64_t outer = 1, inner = 1;
  std::array<ResampledDim, kDims> dims = {};
  Resampling kind = Resampling::nearest;
  bool align_corners = false;

  /// The map along a dim.
  template <class T>
  [[nodiscard]] Resampler<T> along(std::size_t dim) const {
    const bool missing = dims[dim].in == 1 && dims[dim].out == 1;
    return {missing ? Resampling::nearest : kind, dims[dim], !missing && align_corners};
  }
};

/// out = x resampled, in `compute` (f32 or f64); any floating dtypes. Of the views only data and dtype are
/// read. Each result is rounded once.
MEZZO_KERNEL(interpolate, void(const InterpolateShape& shape, const View& out, const View& x, DType compute));

/// out = the gradient of x, given the gradient of the result: each place adds up the results that it has a
/// part in, in f64 and in a fixed order. `shape`: as in forward.
MEZZO_KERNEL(interpolate_backward,
             void(const InterpolateShape& shape, const View& out, const View& grad, DType compute));

}  // namespace mezzo::kernels
