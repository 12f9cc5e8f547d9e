// The reduction front end: picks compute type and device. A reducer (kernels/reduce/reducers.h) says what is
// accumulated; the loops behind it read any strides and dtypes, and fix the order by the shape alone.
//
// For losses, `map_reduce` adds f(a_i, b_i, ...) up over all elements without a temporary:
//   struct SquaredDifference { template <class T> MEZZO_HD T operator()(T x, T t) const { ... } };
//   map_reduce(device, SquaredDifference{}, out, std::array{x_view, t_view}, compute, kDivideByCount);
#pragma once

#include <array>

#include "mezzo/core/dtype.h"
#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/reduce/cpu.h"
#include "mezzo/kernels/reduce/cpu_arg_reduce.h"
#include "mezzo/kernels/reduce/reducers.h"
#if MEZZO_DEVICE_CODE
#include "mezzo/kernels/reduce/cuda.h"
#endif

namespace mezzo::kernels {

/// out = reducer(in), computed in the compute type of `compute`, and rounded once to out's dtype. `out` is
/// shown in the shape of `in`, with stride 0 in the dims that are reduced and in no other of size above 1.
/// Floating sums are accumulated in f64, integers modulo 2^64, in an order that shape and strides fix.
template <class R, bool kDeviceCode = MEZZO_DEVICE_CODE>
void reduce(Device device, R reducer, const View& out, const View& in, DType compute) {
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    MEZZO_ON_CUDA(cuda::reduce<T>(device, reducer, out, in))
    cpu::reduce<T>(reducer, out, in);
  });
}

/// reduce() for reducers of real numbers: `compute` must be f32 or f64.
template <class R, bool kDeviceCode = MEZZO_DEVICE_CODE>
void reduce_real(Device device, R reducer, const View& out, const View& in, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    MEZZO_ON_CUDA(cuda::reduce<T>(device, reducer, out, in))
    cpu::reduce<T>(reducer, out, in);
  });
}

/// out = last(sum over i of f(in[0]_i, ..., in[N-1]_i), count), in one pass and without a temporary. `out`
/// has one element, of any dtype; the inputs have one shape (expanded to it), and any strides and dtypes. f
/// is evaluated in `compute` (f32 or f64), the sum accumulated in f64 in an order that the number of elements
/// fixes, and rounded once. `last` is kKeepSum or kDivideByCount (mean; NaN over no elements).
template <class F, std::size_t N, bool kDeviceCode = MEZZO_DEVICE_CODE>
void map_reduce(Device device, F f, const View& out, const std::array<View, N>& in, DType compute,
                LastStep last = {}) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    MEZZO_ON_CUDA(cuda::map_reduce<T>(device, Sum<F>{f, last}, out, in))
    cpu::map_reduce<T>(Sum<F>{f, last}, out, in);
  });
}

/// out = sum (x - mean)^2 / (n - correction), or its root: two passes, deviations in f64. `compute` must be
/// f32 or f64; views as for reduce.
template <bool kDeviceCode = MEZZO_DEVICE_CODE>
void variance(Device device, Deviation last, const View& out, const View& in, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    MEZZO_ON_CUDA(cuda::variance<T>(device, last, out, in))
    cpu::variance<T>(last, out, in);
  });
}

/// The first largest (or, if Least, smallest) element along the reduced dims and its i64 position in
/// row-major order of these; the first NaN wins. `values` has the strides of `indices`, or no data. There
/// must be elements to choose from. Views as for reduce.
template <bool Least, bool kDeviceCode = MEZZO_DEVICE_CODE>
void arg_reduce(Device device, const View& values, const View& indices, const View& in) {
  dispatch_compute(in.dtype, [&]<class T>(TypeTag<T>) {
    MEZZO_ON_CUDA(cuda::arg_reduce<T, Least>(device, values, indices, in))
    cpu::arg_reduce<T, Least>(values, indices, in);
  });
}

}  // namespace mezzo::kernels
