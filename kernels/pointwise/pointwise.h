// The pointwise front end: picks the compute type and the device. Ops hand it a functor and views; nothing
// else in the library loops over elements for an elementwise op.
#pragma once

#include <array>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/pointwise/cpu.h"
#if MEZZO_DEVICE_CODE
#include "mezzo/kernels/pointwise/cuda.h"
#endif

namespace mezzo::kernels {

/// out = f(in...) elementwise. The views have one shape. Arithmetic is in `compute` (f32, f64 or i64; see
/// compute_dtype): inputs are widened or converted to it, the functor's result is rounded once to out's
/// dtype. The functor is a small trivially copyable object with `template <class T> MEZZO_HD auto
/// operator()(T...) const`.
template <class F, std::size_t N, bool kDeviceCode = MEZZO_DEVICE_CODE>
void pointwise(Device device, F f, const View& out, const std::array<View, N>& in, DType compute) {
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    MEZZO_ON_CUDA(cuda::pointwise<T>(device, f, out, in))
    cpu::pointwise<T>(f, out, in);
  });
}

/// pointwise() for functors that only make sense on real numbers: `compute` must be f32 or f64.
template <class F, std::size_t N, bool kDeviceCode = MEZZO_DEVICE_CODE>
void pointwise_real(Device device, F f, const View& out, const std::array<View, N>& in, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    MEZZO_ON_CUDA(cuda::pointwise<T>(device, f, out, in))
    cpu::pointwise<T>(f, out, in);
  });
}

}  // namespace mezzo::kernels
