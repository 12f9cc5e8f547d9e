// The CPU's kernels of layer_norm and rms_norm: forward and backward, one row at a time while it is in the
// cache.
#include <algorithm>
#include <array>
#include <cstdint>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/norm/cpu_moments.h"
#include "mezzo/kernels/norm/norm.h"
#include "mezzo/kernels/norm/norm_math.h"

namespace mezzo::kernels::cpu {

namespace {

using namespace detail;

/// x squared; the second of two inputs is there for what is fetched with it.
struct SquareFirstFn {
  template <class T>
  MEZZO_ALWAYS_INLINE T operator()(T x, T /*unused*/) const {
    return x * x;
  }
};

/// The function that normalizes a row; `next` and `target` as in row_moments.
template <class T>
[[nodiscard]] MEZZO_ALWAYS_INLINE scalar::NormalizedFn<T> row_normalized(RowNorm kind, const T* x,
                                                                         std::int64_t n, double eps,
                                                                         const T* next, const T* target) {
  const RunRow<T> row{x, 1, n, n};
  if (kind == RowNorm::layer) return row_moments(row, next, target).normalized(eps);
  const double added = row_sums<T, 2>({x, x}, nullptr, n, {next, target}, SquareFirstFn{})[0];
  const double squares = finite_squares(row, T(0), added);
  return {T(0), scalar::reciprocal_deviation<T>(squares / static_cast<double>(n), eps), T(0)};
}

template <class T>
struct RowNormRows {
  static void run(RowBlock<T> out, RowBlock<T> in, const T* weight, const T* bias, RowNorm kind, double eps,
                  std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const x = in.data + r * in.distance;
      T* const y = out.data + r * out.distance;
      const scalar::NormalizedFn<T> normalized = row_normalized(kind, x, n, eps, in.next(r), out.next(r));
      row_map<T, 3>({x, weight, bias}, y, n, normalized);
    }
  }
};

/// Column sums of the parts of the rows, in the compute type; nullptr where they are not wanted.
template <class T>
struct ParameterSums {
  T* weight;
  T* bias;
};

template <class T>
struct RowNormBackwardRows {
  /// Row `begin + r` of all rows adds to the sums of its part, both or none. `out.data` is nullptr where the
  /// gradient of x is not wanted.
  static void run(RowBlock<T> out, RowBlock<T> grads, RowBlock<T> in, const T* weight, ParameterSums<T> sums,
                  RowNorm kind, double eps, std::int64_t begin, std::int64_t part, std::int64_t rows,
                  std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const x = in.data + r * in.distance;
      const T* const grad = grads.data + r * grads.distance;
      T* const result = out.data != nullptr ? out.data + r * out.distance : nullptr;
      const std::int64_t row = begin + r;
      const ParameterSums<T> of_part = sums_of_part(sums, row / part * n, row % part == 0 ? n : 0);
      const scalar::NormalizedFn<T> normalized = row_normalized(kind, x, n, eps, in.next(r), out.next(r));
      if (result == nullptr)
        pass<false>({grad, x, weight}, result, of_part, n, {normalized, T(0), T(0)});
      else
        gradients({grad, x, weight}, result, of_part, n, kind, normalized, grads.next(r));
    }
  }

 private:
  /// The sums from `first` on, of which the first `clear` are set to 0.
  MEZZO_ALWAYS_INLINE static ParameterSums<T> sums_of_part(ParameterSums<T> sums, std::int64_t first,
                                                           std::int64_t clear) {
    if (sums.weight == nullptr) return sums;
    sums.weight += first;
    sums.bias += first;
    for (std::int64_t i = 0; i < clear; ++i) sums.weight[i] = sums.bias[i] = T(0);
    return sums;
  }

  MEZZO_ALWAYS_INLINE static void gradients(std::array<const T*, 3> in, T* result, ParameterSums<T> sums,
                                            std::int64_t n, RowNorm kind, scalar::NormalizedFn<T> normalized,
                                            const T* next) {
    const std::array<double, 2> means =
        row_sums<T, 3>(in, nullptr, n, {next}, scalar::WeightedGradFn{}, scalar::GradDotFn<T>{normalized});
    const auto count = static_cast<double>(n);
    const T mean_grad = kind == RowNorm::layer ? static_cast<T>(means[0] / count) : T(0);
    pass<true>(in, result, sums, n, {normalized, mean_grad, static_cast<T>(means[1] / count)});
  }

  /// The result, if `kResult`, and the sums, in one pass, which is bound by what it reads and writes.
  template <bool kResult>
  MEZZO_ALWAYS_INLINE static void pass(std::array<const T*, 3> in, T* result, ParameterSums<T> sums,
                                       std::int64_t n, scalar::NormGradientFn<T> gradient) {
    if (kResult && sums.weight == nullptr) return row_map<T, 3>(in, result, n, gradient);
    const scalar::GradDotFn<T> dot{gradient.normalized};
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      const T grad = in[0][i], x = in[1][i];
      if constexpr (kResult) result[i] = gradient(grad, x, in[2][i]);
      sums.weight[i] += dot(grad, x);
      sums.bias[i] += grad;
    }
  }
};

/// Rows whose gradients are added up in T before the parts are added in double. At most 64, as many additions
/// as row_sums does; fewer when there would be less than 16 parts for the threads.
[[nodiscard]] std::int64_t rows_per_part(std::int64_t rows) {
  return std::clamp<std::int64_t>(rows / 16, 1, 64);
}

/// [n] values: what is given, or `otherwise`.
template <class T>
class FilledParameter {
 public:
  FilledParameter(const void* given, T otherwise, std::int64_t n)
      : scratch_(given == nullptr ? n : 0), data_(static_cast<const T*>(given)) {
    if (given != nullptr) return;
    std::fill_n(scratch_.data(), n, otherwise);
    data_ = scratch_.data();
  }
  [[nodiscard]] const T* data() const { return data_; }

 private:
  RowScratch<T> scratch_;
  const T* data_;
};

template <class T>
void row_norm_as(RowNorm kind, const View& out, const View& x, const NormParameters& parameters, double eps) {
  const std::size_t dim = out.shape.size() - 1;
  const RowOperand target(out, dim);
  const std::int64_t n = target.length();
  const FilledParameter<T> weight(parameters.weight, 1, n), bias(parameters.bias, 0, n);
  for_row_blocks<T, 1>(
      &target, {RowOperand(x, dim)},
      [&](RowBlock<T> y, const std::array<RowBlock<T>, 1>& in, std::int64_t /*begin*/, std::int64_t rows) {
        run_isa<RowNormRows<T>>(y, in[0], weight.data(), bias.data(), kind, eps, rows, n);
      },
      1, Buffers::shared);
}

template <class T>
void row_norm_backward_as(RowNorm kind, const RowNormGradients& out, const View& grad, const View& x,
                          const T* weight, double eps) {
  const std::size_t dim = x.shape.size() - 1;
  const RowOperand target = out.input != nullptr ? RowOperand(*out.input, dim) : RowOperand();
  const RowOperand input(x, dim);
  const std::int64_t n = input.length(), part = rows_per_part(input.rows());
  ParameterSums<T> sums{static_cast<T*>(out.weight), static_cast<T*>(out.bias)};
  // One of the two is rarely wanted alone.
  const bool both = (sums.weight == nullptr) == (sums.bias == nullptr);
  const RowScratch<T> unwanted(both ? 0 : row_norm_parts(input.rows(), n) * n);
  if (!both) (sums.weight == nullptr ? sums.weight : sums.bias) = unwanted.data();
  const FilledParameter<T> filled(weight, 1, n);
  for_row_blocks<T, 2>(
      out.input != nullptr ? &target : nullptr, {RowOperand(grad, dim), input},
      [&](RowBlock<T> result, const std::array<RowBlock<T>, 2>& in, std::int64_t begin, std::int64_t rows) {
        run_isa<RowNormBackwardRows<T>>(result, in[0], in[1], filled.data(), sums, kind, eps, begin, part,
                                        rows, n);
      },
      part, Buffers::shared);
}

}  // namespace

void row_norm(RowNorm kind, const View& out, const View& x, const NormParameters& parameters, double eps,
              DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) { row_norm_as<T>(kind, out, x, parameters, eps); });
}

void row_norm_backward(RowNorm kind, const RowNormGradients& out, const View& grad, const View& x,
                       const void* weight, double eps, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    row_norm_backward_as<T>(kind, out, grad, x, static_cast<const T*>(weight), eps);
  });
}

std::int64_t row_norm_parts(std::int64_t rows, std::int64_t /*n*/) {
  const std::int64_t part = rows_per_part(rows);
  return (rows + part - 1) / part;
}

}  // namespace mezzo::kernels::cpu
