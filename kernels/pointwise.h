// The pointwise front end: picks the compute type and the device. Ops hand it a functor and views; nothing
// else in the library loops over elements for an elementwise op.
#pragma once

#include <array>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cpu/pointwise.h"

namespace mezzo::kernels {

/// out = f(in...) elementwise. The views have one shape. Arithmetic is in `compute` (f32, f64 or i64; see
/// compute_dtype): inputs are widened or converted to it, the functor's result is rounded once to out's
/// dtype. The functor is a small trivially copyable object with `template <class T> MEZZO_HD auto
/// operator()(T...) const`.
template <class F, std::size_t N>
void pointwise(Device device, F f, const View& out, const std::array<View, N>& in, DType compute) {
  static_cast<void>(device);  // the CPU is the only device so far; a CUDA launch is chosen here
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) { cpu::pointwise<T>(f, out, in); });
}

/// The same for functors that only make sense on real numbers: `compute` must be f32 or f64.
template <class F, std::size_t N>
void pointwise_real(Device device, F f, const View& out, const std::array<View, N>& in, DType compute) {
  static_cast<void>(device);
  if (compute == DType::f64)
    cpu::pointwise<double>(f, out, in);
  else
    cpu::pointwise<float>(f, out, in);
}

}  // namespace mezzo::kernels
