#include "mezzo/kernels/attention/attention.h"

#include "mezzo/kernels/attention/cpu.h"
#include "mezzo/kernels/attention/cuda.h"
#include "mezzo/kernels/device_code.h"

namespace mezzo::kernels {

void attention(Device device, const Attention& attention, const View& out, void* logsumexp) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::attention(device, attention, out, logsumexp);
#endif
  require_host_kernel(device);
  cpu::attention(attention, out, logsumexp);
}

void attention_backward(Device device, const Attention& attention, const View& dq, const View& dk,
                        const View& dv, const View& grad, const View& out, const void* logsumexp) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::attention_backward(device, attention, dq, dk, dv, grad, out, logsumexp);
#endif
  require_host_kernel(device);
  cpu::attention_backward(attention, dq, dk, dv, grad, out, logsumexp);
}

}  // namespace mezzo::kernels
