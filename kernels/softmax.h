// The softmax front end: picks the compute type and the device for the row kernels behind softmax,
// log_softmax and their backward ops.
#pragma once

#include "mezzo/kernels/cpu/softmax.h"

namespace mezzo::kernels {

/// Which of the two functions a row kernel computes.
enum class SoftmaxKind : std::uint8_t { softmax, log_softmax };

/// out = softmax or log_softmax of `in` along `dim`, in `compute` (f32 or f64). Any strides and floating
/// dtypes; one shape. Inputs are widened to `compute`, results rounded once. Reads and writes each element
/// once; the bits do not depend on strides, threads or instruction set.
inline void softmax(Device device, SoftmaxKind kind, const View& out, const View& in, std::size_t dim,
                    DType compute) {
  static_cast<void>(device);  // the CPU is the only device so far; a CUDA launch is chosen here
  const bool log = kind == SoftmaxKind::log_softmax;
  if (compute == DType::f64)
    log ? cpu::softmax<double, true>(out, in, dim) : cpu::softmax<double, false>(out, in, dim);
  else
    log ? cpu::softmax<float, true>(out, in, dim) : cpu::softmax<float, false>(out, in, dim);
}

/// out = the gradient of `softmax` of that kind, given the gradient of its result and the result.
inline void softmax_backward(Device device, SoftmaxKind kind, const View& out, const View& grad,
                             const View& output, std::size_t dim, DType compute) {
  static_cast<void>(device);
  const bool log = kind == SoftmaxKind::log_softmax;
  if (compute == DType::f64) {
    log ? cpu::softmax_backward<double, true>(out, grad, output, dim)
        : cpu::softmax_backward<double, false>(out, grad, output, dim);
  } else {
    log ? cpu::softmax_backward<float, true>(out, grad, output, dim)
        : cpu::softmax_backward<float, false>(out, grad, output, dim);
  }
}

}  // namespace mezzo::kernels
