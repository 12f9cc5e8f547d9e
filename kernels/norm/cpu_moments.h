// Mean and variance of a row that lies in one piece or in several: what the kernels of row norms and run
// norms begin with.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "mezzo/kernels/cpu/row_pass.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/norm/norm_math.h"

namespace mezzo::kernels::cpu::detail {

/// A row of `runs` runs, `distance` apart, and the row that is taken next, or nullptr where nothing is known.
template <class T>
struct RunRow {
  const T* data;
  std::int64_t runs, length, distance;
  const T* next = nullptr;
};

/// row_sums of one row; the next one is fetched meanwhile.
template <class T, class... F>
[[nodiscard]] MEZZO_ALWAYS_INLINE std::array<double, sizeof...(F)> run_sums(RunRow<T> row, const T* next,
                                                                            F... f) {
  std::array<double, sizeof...(F)> totals{};
  for (std::int64_t k = 0; k < row.runs; ++k) {
    const T* const run = row.data + k * row.distance;
    const std::array<double, sizeof...(F)> sums =
        row_sums<T, 1>({run}, nullptr, row.length, {k + 1 < row.runs ? run + row.distance : next}, f...);
    for (std::size_t i = 0; i < sums.size(); ++i) totals[i] += sums[i];
  }
  return totals;
}

/// The squares of x - shift over a row, which are `added` up in T already. Where one of them is beyond T they
/// are added again in f64: variance and mean square of finite values stay finite.
template <class T>
[[nodiscard]] MEZZO_ALWAYS_INLINE double finite_squares(RunRow<T> row, T shift, double added) {
  if (added != std::numeric_limits<double>::infinity()) return added;
  const scalar::SquaredDeviationFn<double> square{static_cast<double>(shift)};
  double sum = 0;
  for (std::int64_t k = 0; k < row.runs; ++k) {
    for (std::int64_t i = 0; i < row.length; ++i)
      sum += square(static_cast<double>(row.data[k * row.distance + i]));
  }
  return sum;
}

/// Moments in f64, for a row whose sums leave T; NaN for one that is not finite.
template <class T>
[[nodiscard, gnu::noinline]] scalar::Moments<T> row_moments_again(RunRow<T> row) {
  const auto count = static_cast<double>(row.runs * row.length);
  const auto each = [&](const auto& f) {
    for (std::int64_t k = 0; k < row.runs; ++k) {
      for (std::int64_t i = 0; i < row.length; ++i) f(static_cast<double>(row.data[k * row.distance + i]));
    }
  };
  double sum = 0, squares = 0, farthest = 0;
  each([&](double x) { sum += x; });
  const scalar::MinusFn<double> minus{sum / count};
  each([&](double x) {
    squares += scalar::SquaredDeviationFn<double>{minus.shift}(x);
    farthest = std::max(farthest, std::abs(minus(x)));
  });
  return scalar::wide_moments<T>(minus.shift, squares / count, farthest);
}

/// In two passes, the second around the mean that the first found. The first fetches the row that comes next,
/// and the second, if it is one run, that which will be written: `target`, or nullptr.
template <class T>
[[nodiscard]] MEZZO_ALWAYS_INLINE scalar::Moments<T> row_moments(RunRow<T> row, const T* next,
                                                                 const T* target) {
  const std::int64_t count = row.runs * row.length;
  const double sum = run_sums(row, next, scalar::IdentityFn{})[0];
  const T mean = static_cast<T>(sum / static_cast<double>(count));
  const std::array<double, 2> sums =
      run_sums(row, target, scalar::MinusFn<T>{mean}, scalar::SquaredDeviationFn<T>{mean});
  if (scalar::leaves_number<T>(sums[0])) return row_moments_again(row);
  return {mean, sums[0], finite_squares(row, mean, sums[1]), count};
}

}  // namespace mezzo::kernels::cpu::detail
