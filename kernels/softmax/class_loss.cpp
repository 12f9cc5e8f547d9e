#include "mezzo/kernels/softmax/class_loss.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/softmax/cpu_class_loss.h"
#include "mezzo/kernels/softmax/cuda_class_loss.h"

namespace mezzo::kernels {

std::int64_t count_classes(Device device, [[maybe_unused]] const char* op, const ClassTarget& target,
                           std::int64_t rows, std::int64_t classes, double* weight_sum, DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) {
    cuda::count_classes(device, op, target, rows, classes, weight_sum, compute);
    return -1;
  }
#endif
  require_host_kernel(device);
  std::int64_t wrong = -1;
  detail::with_real(compute, [&](auto number) {
    using T = decltype(number);
    wrong = cpu::count_classes<T>(target, rows, classes, weight_sum);
  });
  return wrong;
}

void cross_entropy(Device device, void* losses, const View& x, std::size_t dim, const ClassTarget& target,
                   DType compute) {
  // The array of indices of no rows may be nullptr, which elsewhere means probabilities.
  if (layout::numel(x.shape) == 0) return;
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::cross_entropy(device, losses, x, dim, target, compute);
#endif
  require_host_kernel(device);
  detail::with_real(compute, [&](auto number) {
    using T = decltype(number);
    cpu::cross_entropy<T>(static_cast<T*>(losses), x, dim, target);
  });
}

void cross_entropy_backward(Device device, const View& out, const RowScales& scales, const View& x,
                            std::size_t dim, const ClassTarget& target, DType compute) {
  if (layout::numel(x.shape) == 0) return;
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::cross_entropy_backward(device, out, scales, x, dim, target, compute);
#endif
  require_host_kernel(device);
  detail::with_real(compute, [&](auto number) {
    using T = decltype(number);
    cpu::cross_entropy_backward<T>(out, static_cast<const T*>(scales.values), scales.step, x, dim, target);
  });
}

void nll(Device device, void* losses, const View& x, std::size_t dim, const ClassTarget& target,
         DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::nll(device, losses, x, dim, target, compute);
#endif
  require_host_kernel(device);
  detail::with_real(compute, [&](auto number) {
    using T = decltype(number);
    cpu::nll<T>(static_cast<T*>(losses), x, dim, target);
  });
}

void nll_backward(Device device, const View& out, const RowScales& scales, std::size_t dim,
                  const ClassTarget& target, DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::nll_backward(device, out, scales, dim, target, compute);
#endif
  require_host_kernel(device);
  detail::with_real(compute, [&](auto number) {
    using T = decltype(number);
    cpu::nll_backward<T>(out, static_cast<const T*>(scales.values), scales.step, dim, target);
  });
}

}  // namespace mezzo::kernels
