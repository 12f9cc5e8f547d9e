#include "mezzo/kernels/pool/columns.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/pool/cpu_columns.h"
#include "mezzo/kernels/pool/cuda_columns.h"

namespace mezzo::kernels {

void unfold(Device device, std::int64_t planes, const Windows& windows, const View& columns, const View& x) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::unfold(device, planes, windows, columns, x);
#endif
  require_host_kernel(device);
  cpu::unfold(planes, windows, columns, x);
}

void fold(Device device, std::int64_t planes, const Windows& windows, const View& x, const View& columns) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::fold(device, planes, windows, x, columns);
#endif
  require_host_kernel(device);
  cpu::fold(planes, windows, x, columns);
}

}  // namespace mezzo::kernels
