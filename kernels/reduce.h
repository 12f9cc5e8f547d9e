// The reduction front end: picks compute type and device. A reducer (kernels/reducers.h) says what is
// accumulated; the loops behind it read any strides and dtypes, and fix the order by the shape alone.
//
// For losses, `map_reduce` adds f(a_i, b_i, ...) up over all elements without a temporary:
//   struct SquaredDifference { template <class T> MEZZO_HD T operator()(T x, T t) const { ... } };
//   map_reduce(device, SquaredDifference{}, out, std::array{x_view, t_view}, compute, DivideByCount{});
#pragma once

#include <array>

#include "mezzo/core/dtype.h"
#include "mezzo/kernels/cpu/arg_reduce.h"
#include "mezzo/kernels/cpu/reduce.h"
#include "mezzo/kernels/reducers.h"

namespace mezzo::kernels {

/// out = reducer(in), computed in the compute type of `compute`, and rounded once to out's dtype. `out` is
/// shown in the shape of `in`, with stride 0 in the dims that are reduced and in no other of size above 1.
/// Floating sums are accumulated in f64, integers modulo 2^64.
template <class R>
void reduce(Device device, R reducer, const View& out, const View& in, DType compute) {
  static_cast<void>(device);  // the CPU is the only device so far; a CUDA launch is chosen here
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) { cpu::reduce<T>(reducer, out, in); });
}

/// The same for reducers of real numbers: `compute` must be f32 or f64.
template <class R>
void reduce_real(Device device, R reducer, const View& out, const View& in, DType compute) {
  static_cast<void>(device);
  if (compute == DType::f64)
    cpu::reduce<double>(reducer, out, in);
  else
    cpu::reduce<float>(reducer, out, in);
}

/// out = last(sum over i of f(in[0]_i, ..., in[N-1]_i), count), in one pass and without a temporary. `out`
/// has one element, of any dtype; the inputs have one shape (expanded to it), and any strides and dtypes. f
/// is evaluated in `compute` (f32 or f64), the sum accumulated in f64 in an order that the number of elements
/// fixes, and rounded once. `last` is KeepSum{} (sum) or DivideByCount{} (mean; NaN over no elements), or any
/// functor like them.
template <class F, std::size_t N, class Last = KeepSum>
void map_reduce(Device device, F f, const View& out, const std::array<View, N>& in, DType compute,
                Last last = {}) {
  static_cast<void>(device);
  if (compute == DType::f64)
    cpu::map_reduce<double>(Sum<F, Last>{f, last}, out, in);
  else
    cpu::map_reduce<float>(Sum<F, Last>{f, last}, out, in);
}

/// out = sum (x - mean)^2 / (n - correction), or its root: two passes, deviations in f64. `compute` must be
/// f32 or f64; views as for reduce.
inline void variance(Device device, Deviation last, const View& out, const View& in, DType compute) {
  static_cast<void>(device);
  if (compute == DType::f64)
    cpu::variance<double>(last, out, in);
  else
    cpu::variance<float>(last, out, in);
}

/// The first largest (or, if Least, smallest) element along the reduced dims and its i64 position in
/// row-major order of these; the first NaN wins. `values` has the strides of `indices`, or no data. There
/// must be elements to choose from. Views as for reduce.
template <bool Least>
void arg_reduce(Device device, const View& values, const View& indices, const View& in) {
  static_cast<void>(device);
  dispatch_compute(in.dtype, [&]<class T>(TypeTag<T>) { cpu::arg_reduce<T, Least>(values, indices, in); });
}

}  // namespace mezzo::kernels
