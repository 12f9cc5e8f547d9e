#include "mezzo/kernels/scaler/scaler.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/scaler/cpu.h"
#include "mezzo/kernels/scaler/cuda.h"

namespace mezzo::kernels {

void check_finite(Device device, std::span<const View> gradients, ScalerRecord* record, Owners owners) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::check_finite(device, gradients, record, owners);
#endif
  require_host_kernel(device);
  cpu::check_finite(gradients, record, owners);
}

void unscale(Device device, std::span<const View> gradients, ScalerRecord* record, Owners owners) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::unscale(device, gradients, record, owners);
#endif
  require_host_kernel(device);
  cpu::unscale(gradients, record, owners);
}

void update_scale(Device device, ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
                  const ScaleRule& rule) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::update_scale(device, main, optimizers, rule);
#endif
  require_host_kernel(device);
  cpu::update_scale(main, optimizers, rule);
}

void set_scale(Device device, ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
               float value) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::set_scale(device, main, optimizers, value);
#endif
  require_host_kernel(device);
  cpu::set_scale(main, optimizers, value);
}

void set_scale_from(Device device, ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
                    const float* value) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::set_scale_from(device, main, optimizers, value);
#endif
  require_host_kernel(device);
  cpu::set_scale_from(main, optimizers, value);
}

}  // namespace mezzo::kernels
