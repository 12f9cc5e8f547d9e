// Shared by interpolate and grid_sample: checks of images, images as the kernels take them, and compositions
// in public ops.
#pragma once

#include "mezzo/autograd/op.h"
#include "mezzo/ops/sampling.h"
#include "mezzo/ops/shape/copy_into.h"

namespace mezzo::ops {

/// Throws unless the tensor is [N, C, spatial...] with 1 to 3 spatial dims.
inline void require_image_dims(std::string_view op, std::string_view what, const Tensor& x) {
  if (x.dim() >= 3 && x.dim() <= 5) return;
  throw ShapeError(op, std::string(what) + " [N, C, spatial...] with 1 to 3 spatial dims",
                   to_string(x.shape()), "reshape it");
}
/// Throws unless all sizes of [N, C, spatial...] but N are at least 1.
inline void require_places(std::string_view op, const Shape& shape) {
  for (std::size_t d = 1; d < shape.size(); ++d) {
    if (shape[d] >= 1) continue;
    throw ShapeError(op, "sizes of at least 1 behind the batch", to_string(shape),
                     "there is nothing to sample");
  }
}

/// interpolate with antialias, of x [N, C, H, W]; `scales` are the steps in x from place to place of the
/// result (interpolate_antialias.cpp).
[[nodiscard]] Tensor interpolate_antialiased(const Tensor& x, const Dims& size, const ScaleFactors& scales,
                                             InterpolateMode mode);

/// grid_sample in public ops, for x and grid of one dtype in which all of it is computed.
[[nodiscard]] Tensor composed_grid_sample(const Tensor& x, const Tensor& grid,
                                          const GridSampleOptions& options);

}  // namespace mezzo::ops
