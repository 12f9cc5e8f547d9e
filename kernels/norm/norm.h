// The kernels of the normalizations: row norms (layer_norm, rms_norm), whose parameters differ from element
// to element of a row, and channel norms (group_norm, instance_norm, batch_norm), whose parameters are one
// number per channel.
//
// Common to all: rows are normalized one by one, y = (x - mean) / sqrt(variance + eps) * weight + bias, in
// `compute` (f32 or f64), from inputs of any floating dtype, and each result is rounded once. The variance is
// biased and is taken around the mean in a second pass over the row while it is in the cache. A row is read
// and written once; channels-last arrays, whose rows lie among each other, are taken in pieces of rows with
// moments of their own, and read once more where a matrix leaves the cache. The bits do not depend on threads
// or instruction set, and on strides only as far as a channel norm's layout does. Nothing is saved for
// backward but x: statistics are computed again from the row, which has to be read anyway. Empty arrays are
// left alone.
#pragma once

#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/norm/norm_layout.h"

namespace mezzo::kernels {

/// out = row norm of x along the last dim, [n] parameters. Any strides and floating dtypes; one shape [...,
/// n].
MEZZO_KERNEL(row_norm, void(RowNorm kind, const View& out, const View& x, const NormParameters& parameters,
                            double eps, DType compute));

/// The gradients of row_norm, given the gradient of its result: any strides and floating dtypes, one shape.
/// `weight` as in the forward, nullptr for 1.
MEZZO_KERNEL(row_norm_backward, void(RowNorm kind, const RowNormGradients& out, const View& grad,
                                     const View& x, const void* weight, double eps, DType compute));

/// The number of partial sums in RowNormGradients; depends on device and sizes only, and is 0 without rows.
MEZZO_KERNEL(row_norm_parts, std::int64_t(std::int64_t rows, std::int64_t n));

/// out = channel norm of x, both dense and laid out as `layout`, with one weight and bias per channel.
MEZZO_KERNEL(channel_norm, void(const ChannelLayout& layout, const View& out, const View& x,
                                const NormParameters& parameters, const ChannelStatistics& statistics,
                                double eps, DType compute));

/// The gradients of channel_norm, given the gradient of its result, which lies as x. `statistics` are given,
/// and count as constants, or absent: then they are functions of x. Nothing is stored there.
MEZZO_KERNEL(channel_norm_backward, void(const ChannelLayout& layout, const ChannelNormGradients& out,
                                         const View& grad, const View& x, const void* weight,
                                         const ChannelStatistics& statistics, double eps, DType compute));

}  // namespace mezzo::kernels
