// The CPU's softmax kernels: forward and backward of softmax and log-softmax, one row at a time while it is
// in the cache. Apart from kernels/softmax/softmax.h, which chooses the device.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/row_pass.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/softmax/softmax_math.h"

namespace mezzo::kernels::cpu {

namespace detail {

template <class T, bool kLog>
struct SoftmaxRows {
  static void run(RowBlock<T> out, RowBlock<T> in, std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const x = in.data + r * in.distance;
      T* const y = out.data + r * out.distance;
      const T max = row_max(x, n);
      if constexpr (kLog) {
        const T sum =
            static_cast<T>(row_pass<T, 1>({x}, nullptr, n, scalar::ExpMinusFn<T>{max}, {in.next(r)}));
        row_pass<T, 1>({x}, y, n, scalar::LogProbabilityFn<T>{max, math::log(sum)});
      } else {
        const T sum = static_cast<T>(row_pass<T, 1>({x}, y, n, scalar::ExpMinusFn<T>{max}, {in.next(r)}));
        row_pass<T, 1>({y}, y, n, scalar::DividedByFn<T>{sum});
      }
    }
  }
};

template <class T, bool kLog>
struct SoftmaxBackwardRows {
  static void run(RowBlock<T> out, RowBlock<T> grads, RowBlock<T> outputs, std::int64_t rows,
                  std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const grad = grads.data + r * grads.distance;
      const T* const output = outputs.data + r * outputs.distance;
      T* const result = out.data + r * out.distance;
      const std::array<const T*, 2> next{grads.next(r), outputs.next(r)};
      if constexpr (kLog) {
        const T sum = static_cast<T>(row_pass<T, 1>({grad}, nullptr, n, scalar::IdentityFn{}));
        row_pass<T, 2>({grad, output}, result, n, scalar::LogSoftmaxGradientFn<T>{sum}, next);
      } else {
        const T dot = static_cast<T>(row_pass<T, 2>({grad, output}, nullptr, n, scalar::MulFn{}));
        row_pass<T, 2>({grad, output}, result, n, scalar::SoftmaxGradientFn<T>{dot}, next);
      }
    }
  }
};

}  // namespace detail

/// See kernels::softmax; T is float or double.
template <class T, bool kLog>
void softmax(const View& out, const View& in, std::size_t dim) {
  const RowOperand target(out, dim);
  for_row_blocks<T, 1>(
      &target, {RowOperand(in, dim)},
      [n = target.length()](RowBlock<T> y, const std::array<RowBlock<T>, 1>& x, std::int64_t /*begin*/,
                            std::int64_t rows) { run_isa<detail::SoftmaxRows<T, kLog>>(y, x[0], rows, n); });
}

/// See kernels::softmax_backward.
template <class T, bool kLog>
void softmax_backward(const View& out, const View& grad, const View& output, std::size_t dim) {
  const RowOperand target(out, dim);
  for_row_blocks<T, 2>(&target, {RowOperand(grad, dim), RowOperand(output, dim)},
                       [n = target.length()](RowBlock<T> result, const std::array<RowBlock<T>, 2>& in,
                                             std::int64_t /*begin*/, std::int64_t rows) {
                         run_isa<detail::SoftmaxBackwardRows<T, kLog>>(result, in[0], in[1], rows, n);
                       });
}

}  // namespace mezzo::kernels::cpu
