// The front end of the classification losses: picks the compute type and the device for the kernels behind
// cross_entropy and nll_loss. Losses come out one per row; the ops reduce them.
#pragma once

#include "mezzo/core/device.h"
#include "mezzo/kernels/class_target.h"
#include "mezzo/kernels/cpu/class_loss.h"

namespace mezzo::kernels {

/// Factors for the rows' gradients: `values` in the compute type, one per row (`step` 1) or one for all
/// (`step` 0).
struct RowScales {
  const void* values = nullptr;
  std::int64_t step = 0;
};

namespace detail {
template <class F>
void with_real(DType compute, F&& f) {
  compute == DType::f64 ? f(TypeTag<double>{}) : f(TypeTag<float>{});
}
}  // namespace detail

/// Looks through the class indices of all rows: the position of the first that is neither in [0, classes) nor
/// ignore_index, or -1, and then the sum of the weights of those that count, in *weight_sum (device memory).
[[nodiscard]] inline std::int64_t count_classes(Device device, const ClassTarget& target, std::int64_t rows,
                                                std::int64_t classes, double* weight_sum, DType compute) {
  static_cast<void>(device);  // the CPU is the only device so far; a CUDA launch is chosen here
  return compute == DType::f64 ? cpu::count_classes<double>(target, rows, classes, weight_sum)
                               : cpu::count_classes<float>(target, rows, classes, weight_sum);
}

/// losses[r] = the cross-entropy of row r of x along `dim`, in `compute` (f32 or f64), into a contiguous
/// array of that type. Indices must have passed count_classes. x: any strides and floating dtype, read once.
inline void cross_entropy(Device device, void* losses, const View& x, std::size_t dim,
                          const ClassTarget& target, DType compute) {
  static_cast<void>(device);
  detail::with_real(
      compute, [&]<class T>(TypeTag<T>) { cpu::cross_entropy<T>(static_cast<T*>(losses), x, dim, target); });
}

/// out = the gradient of the rows' losses for x, each times its scale. The statistics of a row are computed
/// again, since the row has to be read anyway: nothing but x is saved for backward.
inline void cross_entropy_backward(Device device, const View& out, const RowScales& scales, const View& x,
                                   std::size_t dim, const ClassTarget& target, DType compute) {
  static_cast<void>(device);
  detail::with_real(compute, [&]<class T>(TypeTag<T>) {
    cpu::cross_entropy_backward<T>(out, static_cast<const T*>(scales.values), scales.step, x, dim, target);
  });
}

/// losses[r] = -weight[t] x[r, t], for indices only; otherwise as cross_entropy.
inline void nll(Device device, void* losses, const View& x, std::size_t dim, const ClassTarget& target,
                DType compute) {
  static_cast<void>(device);
  detail::with_real(compute,
                    [&]<class T>(TypeTag<T>) { cpu::nll<T>(static_cast<T*>(losses), x, dim, target); });
}

/// Writes the one element per row of `out` (zeros before) that nll's gradient has.
inline void nll_backward(Device device, const View& out, const RowScales& scales, std::size_t dim,
                         const ClassTarget& target, DType compute) {
  static_cast<void>(device);
  detail::with_real(compute, [&]<class T>(TypeTag<T>) {
    cpu::nll_backward<T>(out, static_cast<const T*>(scales.values), scales.step, dim, target);
  });
}

}  // namespace mezzo::kernels
