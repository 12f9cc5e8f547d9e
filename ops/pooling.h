// Poolings over 1 to 3 spatial dims (torch.nn.functional.max_pool1d ...): the largest element or the mean of
// each window.
//
// Common contract. Shapes: x is [N, C, spatial..] or, for one sample, [C, spatial..], in any strides; the
// result is channels-last when x is. The batch may be empty, other dims may not (ShapeError). Dtypes: the
// result has x's, under autocast too; 16-bit values are computed in f32 and rounded once. Differentiable to
// any order.
//
// A window has `kernel_size` places, `dilation` apart, and starts at o * stride - padding; without `stride`,
// windows follow each other without overlap. There are (input + 2 padding - dilation (kernel_size - 1) - 1) /
// stride + 1 of them along a dim, rounded down, or up with `ceil_mode`, which leaves out windows that would
// begin behind the input. Throws: ShapeError where there is none, and for a window without a place in the
// input; ValueError for a padding of more than half the kernel, for other sizes that make no sense and for
// lists of the wrong length.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/spatial.h"

namespace mezzo {

// --- the largest element (vision/max_pool.cpp)

/// `max_pool2d(x, {.kernel_size = 3, .stride = 2, .padding = 1})`.
struct MaxPoolOptions {
  SpatialSizes kernel_size;
  SpatialSizes stride = {};  ///< kernel_size
  SpatialSizes padding = 0, dilation = 1;
  bool ceil_mode = false;
};
/// y = the largest element of each window, NaN counting as the largest; padding takes no part. The gradient
/// goes to the first of equal elements.
/// Shapes: [N, C, spatial..] -> [N, C, windows..].
/// Dtypes: any but bool (DTypeError).
[[nodiscard]] Tensor max_pool1d(const Tensor& x, const MaxPoolOptions& options);
[[nodiscard]] Tensor max_pool2d(const Tensor& x, const MaxPoolOptions& options);
[[nodiscard]] Tensor max_pool3d(const Tensor& x, const MaxPoolOptions& options);
/// `max_pool2d(x, 2)`. (Templates, so that braces always mean options.)
template <std::integral I>
[[nodiscard]] Tensor max_pool1d(const Tensor& x, I kernel_size, const SpatialSizes& stride = {},
                                const SpatialSizes& padding = 0) {
  return max_pool1d(x, MaxPoolOptions{.kernel_size = kernel_size, .stride = stride, .padding = padding});
}
template <std::integral I>
[[nodiscard]] Tensor max_pool2d(const Tensor& x, I kernel_size, const SpatialSizes& stride = {},
                                const SpatialSizes& padding = 0) {
  return max_pool2d(x, MaxPoolOptions{.kernel_size = kernel_size, .stride = stride, .padding = padding});
}
template <std::integral I>
[[nodiscard]] Tensor max_pool3d(const Tensor& x, I kernel_size, const SpatialSizes& stride = {},
                                const SpatialSizes& padding = 0) {
  return max_pool3d(x, MaxPoolOptions{.kernel_size = kernel_size, .stride = stride, .padding = padding});
}
/// max_pool1d ... as values, and indices: the place of each value in its image, counted in row-major order of
/// the spatial dims (i64); of several NaNs the last.
[[nodiscard]] ValuesIndices max_pool1d_with_indices(const Tensor& x, const MaxPoolOptions& options);
[[nodiscard]] ValuesIndices max_pool2d_with_indices(const Tensor& x, const MaxPoolOptions& options);
[[nodiscard]] ValuesIndices max_pool3d_with_indices(const Tensor& x, const MaxPoolOptions& options);

/// max_pool1d ... over windows that share the input out: window o of `output_size` covers the places from o
/// input / output_size, rounded down, to (o + 1) input / output_size, rounded up. Sizes of 0 give an empty
/// result, std::nullopt keeps the input's size.
/// Shapes: [N, C, spatial..] -> [N, C, output_size..].
[[nodiscard]] Tensor adaptive_max_pool1d(const Tensor& x, const AdaptiveSizes& output_size);
[[nodiscard]] Tensor adaptive_max_pool2d(const Tensor& x, const AdaptiveSizes& output_size);
[[nodiscard]] Tensor adaptive_max_pool3d(const Tensor& x, const AdaptiveSizes& output_size);
[[nodiscard]] ValuesIndices adaptive_max_pool1d_with_indices(const Tensor& x,
                                                             const AdaptiveSizes& output_size);
[[nodiscard]] ValuesIndices adaptive_max_pool2d_with_indices(const Tensor& x,
                                                             const AdaptiveSizes& output_size);
[[nodiscard]] ValuesIndices adaptive_max_pool3d_with_indices(const Tensor& x,
                                                             const AdaptiveSizes& output_size);

// --- back to where the largest elements were (vision/max_unpool.cpp)

/// `max_unpool2d(y, indices, {.kernel_size = 2})`.
struct MaxUnpoolOptions {
  SpatialSizes kernel_size;
  SpatialSizes stride = {};  ///< kernel_size
  SpatialSizes padding = 0;
  SpatialSizes output_size = {};  ///< (size - 1) stride - 2 padding + kernel_size
  MEZZO_FIELDS(MaxUnpoolOptions, kernel_size, stride, padding, output_size)
};
/// Zeros, with each element of x at the place in its image that `indices` says: undoes
/// max_pool1d_with_indices and so on, but for what was not largest. Where places repeat, the last element in
/// row-major order stays, and each element gets the gradient of its place. Shapes: x and indices [N, C,
/// spatial..] (ShapeError) -> [N, C, output_size..]. Dtypes: x any but bool (DTypeError), indices i64.
/// Throws: IndexError for an index that is in no image; ValueError for an output_size that differs from the
/// default by a stride or more. Source: torch.nn.functional.max_unpool1d ...
[[nodiscard]] Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const MaxUnpoolOptions& options);
[[nodiscard]] Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const MaxUnpoolOptions& options);
[[nodiscard]] Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const MaxUnpoolOptions& options);

// --- the mean (vision/average_pool.cpp). Floating dtypes (DTypeError)

/// `avg_pool2d(x, {.kernel_size = 2})`.
struct AvgPoolOptions {
  SpatialSizes kernel_size;
  SpatialSizes stride = {};  ///< kernel_size
  SpatialSizes padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< whether zeros in the padding count
  std::optional<std::int64_t> divisor_override =
      {};  ///< of each sum, in place of a count; not 0 (ValueError)
};
/// y = the sum over each window divided by the number of its places that count: those in the input and, with
/// `count_include_pad`, in the padding. |error| <= (number of places) u mean|x_i| with the rounding unit of
/// f32 (f64 for f64), and one rounding.
/// Shapes: [N, C, spatial..] -> [N, C, windows..].
/// Dtypes: floating (DTypeError).
[[nodiscard]] Tensor avg_pool1d(const Tensor& x, const AvgPoolOptions& options);
[[nodiscard]] Tensor avg_pool2d(const Tensor& x, const AvgPoolOptions& options);
[[nodiscard]] Tensor avg_pool3d(const Tensor& x, const AvgPoolOptions& options);

/// `avg_pool2d(x, 2)`.
template <std::integral I>
[[nodiscard]] Tensor avg_pool1d(const Tensor& x, I kernel_size, const SpatialSizes& stride = {},
                                const SpatialSizes& padding = 0) {
  return avg_pool1d(x, AvgPoolOptions{.kernel_size = kernel_size, .stride = stride, .padding = padding});
}
template <std::integral I>
[[nodiscard]] Tensor avg_pool2d(const Tensor& x, I kernel_size, const SpatialSizes& stride = {},
                                const SpatialSizes& padding = 0) {
  return avg_pool2d(x, AvgPoolOptions{.kernel_size = kernel_size, .stride = stride, .padding = padding});
}
template <std::integral I>
[[nodiscard]] Tensor avg_pool3d(const Tensor& x, I kernel_size, const SpatialSizes& stride = {},
                                const SpatialSizes& padding = 0) {
  return avg_pool3d(x, AvgPoolOptions{.kernel_size = kernel_size, .stride = stride, .padding = padding});
}

/// The mean over each window of adaptive_max_pool1d ...; C may be 0.
[[nodiscard]] Tensor adaptive_avg_pool1d(const Tensor& x, const AdaptiveSizes& output_size);
[[nodiscard]] Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveSizes& output_size);
[[nodiscard]] Tensor adaptive_avg_pool3d(const Tensor& x, const AdaptiveSizes& output_size);

}  // namespace mezzo
