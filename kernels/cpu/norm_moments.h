// Mean and variance of a row that lies in one piece or in several: what the kernels of row norms and run
// norms begin with.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/kernels/cpu/row_pass.h"
#include "mezzo/kernels/norm_math.h"
#include "mezzo/kernels/scalar_math.h"

namespace mezzo::kernels::cpu::detail {

/// A row of `runs` runs, `distance` apart.
template <class T>
struct RunRow {
  const T* data;
  std::int64_t runs, length, distance;
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

/// In two passes, the second around the mean that the first found.
template <class T>
[[nodiscard]] MEZZO_ALWAYS_INLINE scalar::Moments<T> row_moments(RunRow<T> row, const T* next) {
  const std::int64_t count = row.runs * row.length;
  const double sum = run_sums(row, next, scalar::IdentityFn{})[0];
  const T mean = static_cast<T>(sum / static_cast<double>(count));
  const std::array<double, 2> sums = run_sums(row, static_cast<const T*>(nullptr), scalar::MinusFn<T>{mean},
                                              scalar::SquaredDeviationFn<T>{mean});
  return {mean, sums[0], sums[1], count};
}

}  // namespace mezzo::kernels::cpu::detail
