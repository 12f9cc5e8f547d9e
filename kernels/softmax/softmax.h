// The kernels of softmax, log_softmax and the losses made of them, and their gradients, one row at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Which of the two functions a row kernel computes.
enum class SoftmaxKind : std::uint8_t { softmax, log_softmax };

/// out = softmax or log_softmax of `in` along `dim`, in `compute` (f32 or f64). Any strides and floating
/// dtypes; one shape. Inputs are widened to `compute`, results rounded once. Reads and writes each element
/// once; the bits do not depend on strides, threads or instruction set.
MEZZO_KERNEL(softmax,
             void(SoftmaxKind kind, const View& out, const View& in, std::size_t dim, DType compute));

/// out = the gradient of `softmax` of that kind, given the gradient of its result and the result.
MEZZO_KERNEL(softmax_backward, void(SoftmaxKind kind, const View& out, const View& grad, const View& output,
                                    std::size_t dim, DType compute));

// --- cross_entropy with class indices. Losses come out one per row; the op reduces them

/// Class indices with their options. Arrays are contiguous and in device memory.
struct ClassTarget {
  const std::int64_t* index = nullptr;  ///< one class per row
  const void* weight = nullptr;         ///< one per class, in the compute type; always given
  std::int64_t ignore_index = -100;     ///< rows with this index have neither loss nor gradient
  double label_smoothing = 0;
};

/// Factors for the rows' gradients: `values` in the compute type, one per row (`step` 1) or one for all
/// (`step` 0).
struct RowScales {
  const void* values = nullptr;
  std::int64_t step = 0;
};

/// Looks through the class indices of all rows: the position of the first that is neither in [0, classes) nor
/// ignore_index, or -1, and then the sum of the weights of the classes that count, in *weight_sum (device
/// memory). On a CUDA device the host does not wait: the result is -1, and a wrong index becomes a fault of
/// the device that names `op` (a string that lives forever; see core/cuda/fault.h).
MEZZO_KERNEL(count_classes, std::int64_t(const char* op, const ClassTarget& target, std::int64_t rows,
                                         std::int64_t classes, double* weight_sum, DType compute));

/// losses[r] = the cross-entropy of row r of x along `dim`, in `compute` (f32 or f64), into a contiguous
/// array of that type. Indices must have passed count_classes. x: any strides and floating dtype, read once.
MEZZO_KERNEL(cross_entropy,
             void(void* losses, const View& x, std::size_t dim, const ClassTarget& target, DType compute));

/// out = the gradient of the rows' losses for x, each times its scale. The statistics of a row are computed
/// again, since the row has to be read anyway: nothing but x is saved for backward.
MEZZO_KERNEL(cross_entropy_backward, void(const View& out, const RowScales& scales, const View& x,
                                          std::size_t dim, const ClassTarget& target, DType compute));

}  // namespace mezzo::kernels
