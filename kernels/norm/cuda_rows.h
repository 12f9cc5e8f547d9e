// Shared by the CUDA kernels of all normalizations: mean and variance of a row, around the mean in a second
// pass over what the thread holds, and sums for the gradients.
#pragma once

#include <limits>

#include "mezzo/kernels/cuda/row_passes.h"
#include "mezzo/kernels/norm/norm_layout.h"
#include "mezzo/kernels/norm/norm_math.h"

namespace mezzo::kernels::cuda {

template <class T>
struct PairOfSums {
  T first, second;
};
using TwoSums = PairOfSums<double>;
struct AddTwoSums {
  template <class T>
  [[nodiscard]] __device__ PairOfSums<T> operator()(const PairOfSums<T>& a, const PairOfSums<T>& b) const {
    return {a.first + b.first, a.second + b.second};
  }
};
static_assert(2 * sizeof(TwoSums) * (kMostRowThreads / kWarp) <= kRowScratchBytes);

/// The sums over a row of f and of g, as sum_row, in one pass.
template <class Row, class F, class G, class... Along>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE TwoSums two_sums(const Row& row, const F& f, const G& g,
                                                              const Along&... along) {
  using Sum = typename Row::ThreadSum;
  Sum first = 0, second = 0;
  row.each(
      [&](const auto& place, auto... values) {
        first += f(place, values...);
        second += g(place, values...);
      },
      along...);
  const PairOfSums<Sum> sums = row.reduce(PairOfSums<Sum>{first, second}, AddTwoSums{});
  return {static_cast<double>(sums.first), static_cast<double>(sums.second)};
}

// Sums that few rows need are computed from memory: unrolled over a row they would cost registers.

/// The sum over a row of (x - shift)^2 in f64.
template <class Row>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE double squares_in_f64(Row row, double shift) {
  const scalar::SquaredDeviationFn<double> square{shift};
  double sum = 0;
  row.each([&](double x) { sum += square(x); });
  return row.team.reduce(sum, AddTerms{});
}

/// Moments in f64, for a row whose sums leave T; NaN for one that is not finite. All threads of the row call
/// it.
template <class T, class Row>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE scalar::Moments<T> moments_in_f64(Row row) {
  const auto count = static_cast<double>(row.length);
  double sum = 0, squares = 0, farthest = 0;
  row.each([&](double x) { sum += x; });
  const scalar::MinusFn<double> minus{row.team.reduce(sum, AddTerms{}) / count};
  row.each([&](double x) {
    const double deviation = minus(x);
    squares += deviation * deviation;
    farthest = LargerTerm{}(farthest, deviation < 0 ? -deviation : deviation);
  });
  squares = row.team.reduce(squares, AddTerms{});
  return scalar::wide_moments<T>(minus.shift, squares / count, row.team.reduce(farthest, LargerTerm{}));
}

/// The squares of x - shift over a row, which are `added` up already. Where one of them is beyond Number they
/// are added again in f64. Whether that is so all threads of the row know.
template <std::size_t kArray, class Row>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE double finite_squares(const Row& row, typename Row::Number shift,
                                                                   double added) {
  if (added != std::numeric_limits<double>::infinity()) return added;
  return squares_in_f64(row.template in_memory<kArray>(), static_cast<double>(shift));
}

/// Mean and variance of input kArray over a row, in every thread.
template <std::size_t kArray, class Row>
__device__ MEZZO_ALWAYS_INLINE auto row_moments(const Row& row) {
  using T = typename Row::Number;
  const auto x = [&](const auto& place) { return row.template get<kArray>(place); };
  const T shift = static_cast<T>(row.mean_of(sum_row(row, x)));
  const scalar::MinusFn<T> minus{shift};
  const scalar::SquaredDeviationFn<T> square{shift};
  const TwoSums sums = two_sums(
      row, [&](const auto& place) { return minus(x(place)); },
      [&](const auto& place) { return square(x(place)); });
  if (scalar::leaves_number<T>(sums.first)) return moments_in_f64<T>(row.template in_memory<kArray>());
  const double squares = finite_squares<kArray>(row, shift, sums.second);
  return scalar::Moments<T>::of_means(shift, row.mean_of(sums.first), row.mean_of(squares));
}

/// The sums of a row that its gradient needs: of grad(place) * weight, and of that times the normalized x.
template <class Row, class Grad, class X, class... Weight>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE TwoSums
gradient_sums(const Row& row, const scalar::NormalizedFn<typename Row::Number>& normalized, const Grad& grad,
              const X& x, const Weight&... weight) {
  const scalar::GradDotFn<typename Row::Number> dot{normalized};
  return two_sums(
      row,
      [&](const auto& place, auto... w) { return scalar::WeightedGradFn{}(grad(place), x(place), w...); },
      [&](const auto& place, auto... w) { return dot(grad(place), x(place), w...); }, weight...);
}

}  // namespace mezzo::kernels::cuda
