// The CPU's kernels of softmax and log-softmax: forward and backward, one row at a time while it is in the
// cache.
#include <array>
#include <cstdint>
#include <tuple>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/row_pass.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/softmax/softmax.h"
#include "mezzo/kernels/softmax/softmax_math.h"

namespace mezzo::kernels::cpu {

namespace {

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

/// Runs Body<T, log> on blocks of the rows of `out` and `in`.
template <template <class, bool> class Body, class... Views>
void run_softmax(SoftmaxKind kind, DType compute, std::size_t dim, const View& out, const Views&... in) {
  const RowOperand target(out, dim);
  const auto run = [&]<class T, bool kLog>(TypeTag<Body<T, kLog>> /*body*/) {
    constexpr std::size_t kInputs = sizeof...(in);
    for_row_blocks<T, kInputs>(
        &target, {RowOperand(in, dim)...},
        [n = target.length()](RowBlock<T> result, const std::array<RowBlock<T>, kInputs>& blocks,
                              std::int64_t /*begin*/, std::int64_t rows) {
          std::apply([&](const auto&... block) { run_isa<Body<T, kLog>>(result, block..., rows, n); },
                     blocks);
        });
  };
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    kind == SoftmaxKind::log_softmax ? run(TypeTag<Body<T, true>>{}) : run(TypeTag<Body<T, false>>{});
  });
}

}  // namespace

void softmax(SoftmaxKind kind, const View& out, const View& in, std::size_t dim, DType compute) {
  run_softmax<SoftmaxRows>(kind, compute, dim, out, in);
}

void softmax_backward(SoftmaxKind kind, const View& out, const View& grad, const View& output,
                      std::size_t dim, DType compute) {
  run_softmax<SoftmaxBackwardRows>(kind, compute, dim, out, grad, output);
}

}  // namespace mezzo::kernels::cpu
