// The CUDA rows of softmax, log-softmax and their gradients.
#include "mezzo/kernels/softmax/softmax.h"

#include "mezzo/kernels/cuda/row_passes.h"
#include "mezzo/kernels/softmax/softmax_math.h"

namespace mezzo::kernels::cuda {

namespace {

/// Arrays: result, input.
template <class T, bool kLog>
struct SoftmaxRow {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t /*index*/) const {
    const auto x = [&](const auto& place) { return row.template get<1>(place); };
    if constexpr (kLog) {
      const RowStatistics<T> statistics = row_statistics(row, x);
      const scalar::LogProbabilityFn<T> log_probability{statistics.max, math::log(statistics.sum)};
      row.write([&](const auto& place) { return log_probability(x(place)); });
    } else {
      const auto terms = row_terms(row, x);
      const scalar::DividedByFn<T> divided{terms.second};
      row.write([&](const auto& place) { return divided(terms.first(place)); });
    }
  }
};

/// Arrays: result, gradient, output of the forward pass.
template <class T, bool kLog>
struct SoftmaxBackwardRow {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t /*index*/) const {
    const auto grad = [&](const auto& place) { return row.template get<1>(place); };
    const auto output = [&](const auto& place) { return row.template get<2>(place); };
    const double total = sum_row(row, [&](const auto& place) {
      if constexpr (kLog)
        return grad(place);
      else
        return grad(place) * output(place);
    });
    const scalar::LogSoftmaxGradientFn<T> of_log{static_cast<T>(total)};
    const scalar::SoftmaxGradientFn<T> of_softmax{static_cast<T>(total)};
    row.write([&](const auto& place) {
      return kLog ? of_log(grad(place), output(place)) : of_softmax(grad(place), output(place));
    });
  }
};

/// Runs Body<T, log> on the rows of the arrays.
template <template <class, bool> class Body, std::size_t N>
void run(Device device, SoftmaxKind kind, DType compute, const RowArrays<N>& rows) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    kind == SoftmaxKind::log_softmax ? run_row_passes(device, rows, Body<T, true>{})
                                     : run_row_passes(device, rows, Body<T, false>{});
  });
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
