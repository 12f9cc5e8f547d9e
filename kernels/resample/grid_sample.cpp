#include "mezzo/kernels/resample/grid_sample.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/resample/cpu_grid_sample.h"
#include "mezzo/kernels/resample/cuda_grid_sample.h"

namespace mezzo::kernels {

void grid_sample(Device device, const GridSampleShape& shape, const View& out, const View& x,
                 const View& grid, DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::grid_sample(device, shape, out, x, grid, compute);
#endif
  require_host_kernel(device);
  cpu::grid_sample(shape, out, x, grid, compute);
}

void grid_sample_input_gradient(Device device, const GridSampleShape& shape, const View& out,
                                const View& grad, const View& grid, DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::grid_sample_input_gradient(device, shape, out, grad, grid, compute);
#endif
  require_host_kernel(device);
  cpu::grid_sample_input_gradient(shape, out, grad, grid, compute);
}

void grid_sample_grid_gradient(Device device, const GridSampleShape& shape, const View& out, const View& grad,
                               const View& x, const View& grid, DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::grid_sample_grid_gradient(device, shape, out, grad, x, grid, compute);
#endif
  require_host_kernel(device);
  cpu::grid_sample_grid_gradient(shape, out, grad, x, grid, compute);
}

}  // namespace mezzo::kernels
