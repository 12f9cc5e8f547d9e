// The CUDA rows of softmax, log-softmax and their gradients.
#include "mezzo/kernels/cuda/softmax.h"

#include "mezzo/kernels/cuda/rows.h"
#include "mezzo/kernels/softmax_math.h"

namespace mezzo::kernels::cuda {

namespace {

/// Arrays: result, input.
template <class T, bool kLog>
struct SoftmaxRow {
  template <class Team>
  __device__ void operator()(const Team& team, const Row<2>& row, std::int64_t /*index*/,
                             std::int64_t n) const {
    const auto x = [&](std::int64_t i) { return row.template get<T>(1, i); };
    const T max = max_row<T>(team, n, x);
    const scalar::ExpMinusFn<T> term{max};
    const T sum = static_cast<T>(sum_row(team, n, [&](std::int64_t i) { return term(x(i)); }));
    const scalar::LogProbabilityFn<T> log_probability{max, math::log(sum)};
    const scalar::DividedByFn<T> divided{sum};
    for (std::int64_t i = team.rank(); i < n; i += team.size()) {
      row.set(0, i, kLog ? log_probability(x(i)) : divided(term(x(i))));
    }
  }
};

/// Arrays: result, gradient, output of the forward pass.
template <class T, bool kLog>
struct SoftmaxBackwardRow {
  template <class Team>
  __device__ void operator()(const Team& team, const Row<3>& row, std::int64_t /*index*/,
                             std::int64_t n) const {
    const auto grad = [&](std::int64_t i) { return row.template get<T>(1, i); };
    const auto output = [&](std::int64_t i) { return row.template get<T>(2, i); };
    const double total = sum_row(team, n, [&](std::int64_t i) {
      if constexpr (kLog)
        return grad(i);
      else
        return grad(i) * output(i);
    });
    const scalar::LogSoftmaxGradientFn<T> of_log{static_cast<T>(total)};
    const scalar::SoftmaxGradientFn<T> of_softmax{static_cast<T>(total)};
    for (std::int64_t i = team.rank(); i < n; i += team.size()) {
      row.set(0, i, kLog ? of_log(grad(i), output(i)) : of_softmax(grad(i), output(i)));
    }
  }
};

/// Runs Body<T, log> on the rows of the arrays.
template <template <class, bool> class Body, std::size_t N>
void run(Device device, SoftmaxKind kind, DType compute, const RowArrays<N>& rows) {
  const bool log = kind == SoftmaxKind::log_softmax;
  if (compute == DType::f64)
    log ? run_rows(device, rows, Body<double, true>{}) : run_rows(device, rows, Body<double, false>{});
  else
    log ? run_rows(device, rows, Body<float, true>{}) : run_rows(device, rows, Body<float, false>{});
}

}  // namespace

void softmax(Device device, SoftmaxKind kind, const View& out, const View& in, std::size_t dim,
             DType compute) {
  run<SoftmaxRow>(device, kind, compute, RowArrays<2>({out, in}, dim));
}

void softmax_backward(Device device, SoftmaxKind kind, const View& out, const View& grad, const View& output,
                      std::size_t dim, DType compute) {
  run<SoftmaxBackwardRow>(device, kind, compute, RowArrays<3>({out, grad, output}, dim));
}

}  // namespace mezzo::kernels::cuda
