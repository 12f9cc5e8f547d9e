// The CPU's kernels of layer_norm and rms_norm: forward and backward, one row at a time while it is in the
// cache. Apart from kernels/norm.h, which chooses the device.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/norm_moments.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/norm_layout.h"
#include "mezzo/kernels/norm_math.h"
#include "mezzo/kernels/scalar_math.h"

namespace mezzo::kernels::cpu {

namespace detail {

/// The function that normalizes a row.
template <class T>
[[nodiscard]] MEZZO_ALWAYS_INLINE scalar::NormalizedFn<T> row_normalized(RowNorm kind, const T* x,
                                                                         std::int64_t n, double eps,
                                                                         const T* next) {
  const RunRow<T> row{x, 1, n, n};
  if (kind == RowNorm::layer) return row_moments(row, next).normalized(eps);
  const double squares = finite_squares(row, T(0), run_sums(row, next, scalar::SquaredDeviationFn<T>{0})[0]);
  return {T(0), scalar::reciprocal_deviation<T>(squares / static_cast<double>(n), eps), T(0)};
}

/// `kAffine`: weight and bias are both there.
template <class T, bool kAffine>
struct RowNormRows {
  static void run(RowBlock<T> out, RowBlock<T> in, const T* weight, const T* bias, RowNorm kind, double eps,
                  std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const x = in.data + r * in.distance;
      T* const y = out.data + r * out.distance;
      const scalar::NormalizedFn<T> normalized = row_normalized(kind, x, n, eps, in.next(r));
      if constexpr (kAffine)
        row_map<T, 3>({x, weight, bias}, y, n, normalized);
      else
        row_map<T, 1>({x}, y, n, normalized);
    }
  }
};

/// Column sums of a part of the rows, in the compute type; nullptr where they are not wanted.
template <class T>
struct ParameterSums {
  T* weight;
  T* bias;
};

/// Adds to a sum per place: grad times the normalized x, or grad.
template <class T>
struct AddGradDotFn {
  scalar::GradDotFn<T> dot;
  MEZZO_ALWAYS_INLINE T operator()(T sum, T grad, T x) const { return sum + dot(grad, x); }
};

template <class T, bool kWeight>
struct RowNormBackwardRows {
  /// Row `begin + r` of all rows adds to the sums of its part. `out.data` is nullptr where the gradient of x
  /// is not wanted.
  static void run(RowBlock<T> out, RowBlock<T> grads, RowBlock<T> in, const T* weight, ParameterSums<T> sums,
                  RowNorm kind, double eps, std::int64_t begin, std::int64_t part, std::int64_t rows,
                  std::int64_t n) {
    std::int64_t in_part = begin % part, first = begin / part * n;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const x = in.data + r * in.distance;
      const T* const grad = grads.data + r * grads.distance;
      const scalar::NormalizedFn<T> normalized = row_normalized(kind, x, n, eps, in.next(r));
      if (out.data != nullptr) {
        T* const result = out.data + r * out.distance;
        const T* const next = grads.next(r);
        if constexpr (kWeight)
          gradient<3>({grad, x, weight}, result, n, kind, normalized, {next, nullptr, nullptr});
        else
          gradient<2>({grad, x}, result, n, kind, normalized, {next, nullptr});
      }
      add_row(sums, first, in_part == 0, grad, x, n, normalized);
      if (++in_part < part) continue;
      in_part = 0;
      first += n;
    }
  }

 private:
  template <std::size_t N>
  MEZZO_ALWAYS_INLINE static void gradient(std::array<const T*, N> in, T* result, std::int64_t n,
                                           RowNorm kind, scalar::NormalizedFn<T> normalized,
                                           std::array<const T*, N> next) {
    const std::array<double, 2> sums =
        row_sums<T, N>(in, nullptr, n, next, scalar::WeightedGradFn{}, scalar::GradDotFn<T>{normalized});
    const auto count = static_cast<double>(n);
    const T mean_grad = kind == RowNorm::layer ? static_cast<T>(sums[0] / count) : T(0);
    row_map<T, N>(in, result, n,
                  scalar::NormGradientFn<T>{normalized, mean_grad, static_cast<T>(sums[1] / count)});
  }

  MEZZO_ALWAYS_INLINE static void add_row(ParameterSums<T> sums, std::int64_t first, bool clear,
                                          const T* grad, const T* x, std::int64_t n,
                                          scalar::NormalizedFn<T> normalized) {
    if (sums.weight != nullptr) {
      T* const sum = sums.weight + first;
      for (std::int64_t i = 0; clear && i < n; ++i) sum[i] = T(0);
      row_map<T, 3>({sum, grad, x}, sum, n, AddGradDotFn<T>{{normalized}});
    }
    if (sums.bias != nullptr) {
      T* const sum = sums.bias + first;
      for (std::int64_t i = 0; clear && i < n; ++i) sum[i] = T(0);
      row_map<T, 2>({sum, grad}, sum, n, scalar::AddFn{});
    }
  }
};

/// Rows whose gradients are added up in T before the parts are added in double. At most 64, as many additions
/// as row_sums does; fewer when there would be less than 16 parts for the threads.
[[nodiscard]] inline std::int64_t rows_per_part(std::int64_t rows) {
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

}  // namespace detail

/// See kernels::row_norm; T is float or double.
template <class T>
void row_norm(RowNorm kind, const View& out, const View& x, const NormParameters& parameters, double eps) {
  const std::size_t dim = out.shape.size() - 1;
  const RowOperand target(out, dim);
  const std::int64_t n = target.length();
  const auto run = [&](auto body, const T* weight, const T* bias) {
    using Body = decltype(body);
    for_row_blocks<T, 1>(
        &target, {RowOperand(x, dim)},
        [&](RowBlock<T> y, const std::array<RowBlock<T>, 1>& in, std::int64_t /*begin*/, std::int64_t rows) {
          run_isa<Body>(y, in[0], weight, bias, kind, eps, rows, n);
        });
  };
  if (parameters.weight == nullptr && parameters.bias == nullptr)
    return run(detail::RowNormRows<T, false>{}, nullptr, nullptr);
  // One of the two is rarely missing: a loop for each case would be twice the code.
  const detail::FilledParameter<T> weight(parameters.weight, 1, n), bias(parameters.bias, 0, n);
  run(detail::RowNormRows<T, true>{}, weight.data(), bias.data());
}

/// See kernels::row_norm_parts.
[[nodiscard]] inline std::int64_t row_norm_parts(std::int64_t rows) {
  const std::int64_t part = detail::rows_per_part(rows);
  return (rows + part - 1) / part;
}

/// See kernels::row_norm_backward.
template <class T>
void row_norm_backward(RowNorm kind, const RowNormGradients& out, const View& grad, const View& x,
                       const T* weight, double eps) {
  const std::size_t dim = x.shape.size() - 1;
  const RowOperand target = out.input != nullptr ? RowOperand(*out.input, dim) : RowOperand();
  const RowOperand input(x, dim);
  const std::int64_t n = input.length(), part = detail::rows_per_part(input.rows());
  const detail::ParameterSums<T> sums{static_cast<T*>(out.weight), static_cast<T*>(out.bias)};
  const auto run = [&](auto body) {
    using Body = decltype(body);
    for_row_blocks<T, 2>(
        out.input != nullptr ? &target : nullptr, {RowOperand(grad, dim), input},
        [&](RowBlock<T> result, const std::array<RowBlock<T>, 2>& in, std::int64_t begin, std::int64_t rows) {
          run_isa<Body>(result, in[0], in[1], weight, sums, kind, eps, begin, part, rows, n);
        },
        part);
  };
  if (weight != nullptr)
    run(detail::RowNormBackwardRows<T, true>{});
  else
    run(detail::RowNormBackwardRows<T, false>{});
}

}  // namespace mezzo::kernels::cpu
