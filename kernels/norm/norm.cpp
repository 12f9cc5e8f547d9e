#include "mezzo/kernels/norm/norm.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/norm/cpu_row_norm.h"
#include "mezzo/kernels/norm/cpu_run_norm.h"
#include "mezzo/kernels/norm/cuda.h"

namespace mezzo::kernels {

namespace {

/// Calls f with a value of the compute type.
template <class F>
void with_type(DType compute, const F& f) {
  compute == DType::f64 ? f(double{}) : f(float{});
}

}  // namespace

void row_norm(Device device, RowNorm kind, const View& out, const View& x, const NormParameters& parameters,
              double eps, DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::row_norm(device, kind, out, x, parameters, eps, compute);
#endif
  require_host_kernel(device);
  with_type(compute, [&](auto number) {
    using T = decltype(number);
    cpu::row_norm<T>(kind, out, x, parameters, eps);
  });
}

void row_norm_backward(Device device, RowNorm kind, const RowNormGradients& out, const View& grad,
                       const View& x, const void* weight, double eps, DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::row_norm_backward(device, kind, out, grad, x, weight, eps, compute);
#endif
  require_host_kernel(device);
  with_type(compute, [&](auto number) {
    using T = decltype(number);
    cpu::row_norm_backward<T>(kind, out, grad, x, static_cast<const T*>(weight), eps);
  });
}

std::int64_t row_norm_parts(Device device, std::int64_t rows, [[maybe_unused]] std::int64_t n) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::row_norm_parts(rows, n);
#endif
  require_host_kernel(device);
  return cpu::row_norm_parts(rows);
}

void run_norm(Device device, const RunLayout& layout, const View& out, const View& x,
              const NormParameters& parameters, const RunStatistics& statistics, double eps, DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::run_norm(device, layout, out, x, parameters, statistics, eps, compute);
#endif
  require_host_kernel(device);
  with_type(compute, [&](auto number) {
    using T = decltype(number);
    cpu::run_norm<T>(layout, out, x, parameters, statistics, eps);
  });
}

void run_norm_backward(Device device, const RunLayout& layout, const RunNormGradients& out, const View& grad,
                       const View& x, const void* weight, const RunStatistics& statistics, double eps,
                       DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda())
    return cuda::run_norm_backward(device, layout, out, grad, x, weight, statistics, eps, compute);
#endif
  require_host_kernel(device);
  with_type(compute, [&](auto number) {
    using T = decltype(number);
    cpu::run_norm_backward<T>(layout, out, grad, x, static_cast<const T*>(weight), statistics, eps);
  });
}

}  // namespace mezzo::kernels
