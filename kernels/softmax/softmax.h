// The kernels of softmax, log_softmax and their gradients, one row at a time.
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

}  // namespace mezzo::kernels
