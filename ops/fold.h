// unfold and fold: the blocks of an image as columns, and the sum of such columns as an image
// (torch.nn.functional.unfold, fold). What Tensor.unfold does is tensor_unfold (ops/shape.h).
//
// Common contract. Shapes: images are [N, C, H, W] or [C, H, W], columns [N, C * kernel places, L] or without
// N, where L = product of (size + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1, rounded down,
// over both dims: column l holds the block at window l, channel by channel in row-major order, 0 where it
// lies in the padding. Only N may be 0. Any strides, contiguous results. Dtypes: floating (DTypeError), which
// stay, under autocast too. Each is the other's gradient, to any order. Throws: ShapeError for dims and sizes
// that do not fit together and where there is no window; ValueError for sizes that make no sense and for
// lists of other than 1 or 2 numbers.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/spatial.h"

namespace mezzo {

/// `unfold(x, {.kernel_size = 3, .padding = 1})`.
struct FoldOptions {
  SpatialSizes kernel_size;
  SpatialSizes dilation = 1, padding = 0, stride = 1;
};
/// The columns of an image.
[[nodiscard]] Tensor unfold(const Tensor& x, const FoldOptions& options);
/// An image of `output_size`: each place is the sum of its elements in all columns, in the order of the
/// kernel's places; 16-bit elements are added in f32 and rounded once.
[[nodiscard]] Tensor fold(const Tensor& columns, const SpatialSizes& output_size, const FoldOptions& options);

}  // namespace mezzo
