// What the CUDA kernels of all normalizations share: mean and variance of a row, around the mean in a second
// pass over what the thread holds, and sums for the gradients.
#pragma once

#include <cstdint>
#include <limits>

#include "mezzo/kernels/cuda/row_passes.h"
#include "mezzo/kernels/norm/norm_layout.h"
#include "mezzo/kernels/norm/norm_math.h"

namespace mezzo::kernels::cuda {

struct TwoSums {
  double first, second;
};
struct AddTwoSums {
  [[nodiscard]] __device__ TwoSums operator()(const TwoSums& a, const TwoSums& b) const {
    return {a.first + b.first, a.second + b.second};
  }
};
static_assert(sizeof(TwoSums) * (kMostRowThreads / kWarp) <= kRowScratchBytes);

/// The sums over a row of f and of g, as sum_row, in one pass.
template <class Row, class F, class G, class... Along>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE TwoSums two_sums(const Row& row, const F& f, const G& g,
                                                              const Along&... along) {
  typename Row::ThreadSum first = 0, second = 0;
  row.each(
      [&](const auto& place, auto... values) {
        first += f(place, values...);
        second += g(place, values...);
      },
      along...);
  return row.reduce(TwoSums{static_cast<double>(first), static_cast<double>(second)}, AddTwoSums{});
}

/// The squares of x(place) - shift over a row, which are `added` up already. Where one of them is beyond
/// Number they are added again in f64. Whether that is so all threads of the row know.
template <class Row, class X>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE double finite_squares(const Row& row, const X& x,
                                                                   typename Row::Number shift, double added) {
  if (added != std::numeric_limits<double>::infinity()) return added;
  const scalar::SquaredDeviationFn<double> square{static_cast<double>(shift)};
  double sum = 0;
  row.each([&](const auto& place) { sum += square(static_cast<double>(x(place))); });
  return row.reduce(sum, AddTerms{});
}

/// Moments in f64, for a row whose sums leave Number; NaN for one that is not finite. All threads of the row
/// call it.
template <class Row, class X>
[[nodiscard]] __device__ auto row_moments_again(const Row& row, const X& x) {
  const auto count = static_cast<double>(row.length());
  double sum = 0, squares = 0, farthest = 0;
  row.each([&](const auto& place) { sum += static_cast<double>(x(place)); });
  const scalar::MinusFn<double> minus{row.reduce(sum, AddTerms{}) / count};
  row.each([&](const auto& place) {
    const auto value = static_cast<double>(x(place));
    const double deviation = minus(value);
    squares += scalar::SquaredDeviationFn<double>{minus.shift}(value);
    farthest = LargerTerm{}(farthest, deviation < 0 ? -deviation : deviation);
  });
  squares = row.reduce(squares, AddTerms{});
  return scalar::wide_moments<typename Row::Number>(minus.shift, squares / count,
                                                    row.reduce(farthest, LargerTerm{}));
}

/// Mean and variance of x(place) over a row, in every thread.
template <class Row, class X>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE auto row_moments(const Row& row, const X& x) {
  using T = typename Row::Number;
  const T shift = static_cast<T>(sum_row(row, x) / static_cast<double>(row.length()));
  const scalar::MinusFn<T> minus{shift};
  const scalar::SquaredDeviationFn<T> square{shift};
  const TwoSums sums = two_sums(
      row, [&](const auto& place) { return minus(x(place)); },
      [&](const auto& place) { return square(x(place)); });
  if (scalar::leaves_number<T>(sums.first)) return row_moments_again(row, x);
  const double squares = finite_squares(row, x, shift, sums.second);
  return scalar::Moments<T>(shift, sums.first, squares, row.length());
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
