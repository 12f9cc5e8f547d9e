// Shared by grid_sample's descriptors and its plain composition.
#pragma once

#include "mezzo/autograd/op.h"
#include "mezzo/ops/sampling.h"

namespace mezzo::ops {

/// grid_sample in public ops, for x and grid of one dtype in which all of it is computed.
[[nodiscard]] Tensor composed_grid_sample(const Tensor& x, const Tensor& grid,
                                          const GridSampleOptions& options);

/// The gradients of x and of grid that are asked for, in this order, given the result's gradient.
[[nodiscard]] Outputs composed_grid_sample_backward(const Tensor& grad, const Tensor& x, const Tensor& grid,
                                                    const GridSampleOptions& options, bool of_input,
                                                    bool of_grid);

}  // namespace mezzo::ops
