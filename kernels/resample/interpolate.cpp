#include "mezzo/kernels/resample/interpolate.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/resample/cpu_interpolate.h"
#include "mezzo/kernels/resample/cuda_interpolate.h"

namespace mezzo::kernels {

void interpolate(Device device, const InterpolateShape& shape, const View& out, const View& x,
                 DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::interpolate(device, shape, out, x, compute);
#endif
  require_host_kernel(device);
  cpu::interpolate(shape, out, x, compute);
}

void interpolate_backward(Device device, const InterpolateShape& shape, const View& out, const View& grad,
                          DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::interpolate_backward(device, shape, out, grad, compute);
#endif
  require_host_kernel(device);
  cpu::interpolate_backward(shape, out, grad, compute);
}

}  // namespace mezzo::kernels
