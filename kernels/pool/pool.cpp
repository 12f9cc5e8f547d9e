#include "mezzo/kernels/pool/pool.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/pool/cpu_pool.h"
#include "mezzo/kernels/pool/cuda_pool.h"

namespace mezzo::kernels {

void max_pool(Device device, const Pooling& pooling, const View& y, std::int64_t* indices, const View& x) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::max_pool(device, pooling, y, indices, x);
#endif
  require_host_kernel(device);
  cpu::max_pool(pooling, y, indices, x);
}

std::int64_t max_pool_backward(Device device, const Pooling& pooling, const View& dx, const View& grad,
                               const std::int64_t* indices) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) {
    cuda::max_pool_backward(device, pooling, dx, grad, indices);
    return -1;
  }
#endif
  require_host_kernel(device);
  return cpu::max_pool_backward(pooling, dx, grad, indices);
}

void average_pool(Device device, const AveragePooling& pooling, const View& y, const View& x) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::average_pool(device, pooling, y, x);
#endif
  require_host_kernel(device);
  cpu::average_pool(pooling, y, x);
}

void average_pool_backward(Device device, const AveragePooling& pooling, const View& dx, const View& grad) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::average_pool_backward(device, pooling, dx, grad);
#endif
  require_host_kernel(device);
  cpu::average_pool_backward(pooling, dx, grad);
}

}  // namespace mezzo::kernels
