#include "mezzo/kernels/conv/conv.h"

#include "mezzo/kernels/conv/cpu.h"
#include "mezzo/kernels/conv/cuda.h"
#include "mezzo/kernels/device_code.h"

namespace mezzo::kernels {

void conv_forward(Device device, const ConvShape& shape, const View& y, const View& x, const View& weight,
                  const void* bias) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::conv_forward(device, shape, y, x, weight, bias);
#endif
  require_host_kernel(device);
  cpu::conv_forward(shape, y, x, weight, bias);
}

void conv_input_gradient(Device device, const ConvShape& shape, const View& x, const View& y,
                         const View& weight, const void* bias) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::conv_input_gradient(device, shape, x, y, weight, bias);
#endif
  require_host_kernel(device);
  cpu::conv_input_gradient(shape, x, y, weight, bias);
}

void conv_weight_gradient(Device device, const ConvShape& shape, const View& weight, const View& x,
                          const View& y, void* bias) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::conv_weight_gradient(device, shape, weight, x, y, bias);
#endif
  require_host_kernel(device);
  cpu::conv_weight_gradient(shape, weight, x, y, bias);
}

}  // namespace mezzo::kernels
