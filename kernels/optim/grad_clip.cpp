#include "mezzo/kernels/optim/grad_clip.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/optim/cpu_grad_clip.h"
#include "mezzo/kernels/optim/cuda_grad_clip.h"

namespace mezzo::kernels {

void total_norm(Device device, std::span<const View> tensors, double p, const View& total) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::total_norm(device, tensors, p, total);
#endif
  require_host_kernel(device);
  cpu::total_norm(tensors, p, total);
}

void scale_to_norm(Device device, std::span<const View> tensors, double max_norm, const View& total) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::scale_to_norm(device, tensors, max_norm, total);
#endif
  require_host_kernel(device);
  cpu::scale_to_norm(tensors, max_norm, total);
}

void limit_values(Device device, std::span<const View> tensors, double limit) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::limit_values(device, tensors, limit);
#endif
  require_host_kernel(device);
  cpu::limit_values(tensors, limit);
}

}  // namespace mezzo::kernels
