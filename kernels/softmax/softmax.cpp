#include "mezzo/kernels/softmax/softmax.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/softmax/cpu_softmax.h"
#include "mezzo/kernels/softmax/cuda_softmax.h"

namespace mezzo::kernels {

namespace {

/// Calls f with a value of the compute type and the kind as a constant.
template <class F>
void with_kind(SoftmaxKind kind, DType compute, const F& f) {
  const auto with_type = [&](auto log) { compute == DType::f64 ? f(double{}, log) : f(float{}, log); };
  if (kind == SoftmaxKind::log_softmax)
    with_type(std::true_type{});
  else
    with_type(std::false_type{});
}

}  // namespace

void softmax(Device device, SoftmaxKind kind, const View& out, const View& in, std::size_t dim,
             DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::softmax(device, kind, out, in, dim, compute);
#endif
  require_host_kernel(device);
  with_kind(kind, compute, [&](auto number, auto log) {
    using T = decltype(number);
    constexpr bool kLog = decltype(log)::value;
    cpu::softmax<T, kLog>(out, in, dim);
  });
}

void softmax_backward(Device device, SoftmaxKind kind, const View& out, const View& grad, const View& output,
                      std::size_t dim, DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::softmax_backward(device, kind, out, grad, output, dim, compute);
#endif
  require_host_kernel(device);
  with_kind(kind, compute, [&](auto number, auto log) {
    using T = decltype(number);
    constexpr bool kLog = decltype(log)::value;
    cpu::softmax_backward<T, kLog>(out, grad, output, dim);
  });
}

}  // namespace mezzo::kernels
