// Parameters, statistics and sums of channel norms in the compute type, for the loops over rows and over
// columns.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/kernels/norm/norm_layout.h"
#include "mezzo/kernels/norm/norm_math.h"

namespace mezzo::kernels::cpu::detail {

/// ChannelStatistics and parameters.
template <class T>
struct ChannelArrays {
  const T* weight;
  const T* bias;
  T* mean;
  T* variance;
  bool given;

  [[nodiscard]] MEZZO_ALWAYS_INLINE T weight_of(std::int64_t channel) const {
    return weight != nullptr ? weight[channel] : T(1);
  }
  [[nodiscard]] MEZZO_ALWAYS_INLINE T bias_of(std::int64_t channel) const {
    return bias != nullptr ? bias[channel] : T(0);
  }
  /// The function that normalizes a row of which the statistics are given.
  [[nodiscard]] MEZZO_ALWAYS_INLINE scalar::NormalizedFn<T> known(std::int64_t row, double eps) const {
    const auto spread = static_cast<double>(variance[row]);
    return {mean[row], scalar::reciprocal_deviation<T>(spread, eps), T(0)};
  }
  /// The function that normalizes a row with these moments; stores them as the row's statistics.
  [[nodiscard]] MEZZO_ALWAYS_INLINE scalar::NormalizedFn<T> found(scalar::Moments<T> moments,
                                                                  std::int64_t row, double eps) const {
    if (mean != nullptr) mean[row] = static_cast<T>(moments.mean());
    if (variance != nullptr) variance[row] = static_cast<T>(moments.variance);
    return moments.normalized(eps);
  }
};

template <class T>
[[nodiscard]] ChannelArrays<T> channel_arrays(const void* weight, const void* bias,
                                              const ChannelStatistics& statistics) {
  return {static_cast<const T*>(weight), static_cast<const T*>(bias), static_cast<T*>(statistics.mean),
          static_cast<T*>(statistics.variance), statistics.given};
}

/// Sums of backward; nullptr where they are not wanted.
template <class T>
struct RunSums {
  T* weight;
  T* bias;
  /// The sums of grad and of grad times the normalized x.
  MEZZO_ALWAYS_INLINE void store(std::int64_t at, std::array<double, 2> sums) const {
    if (bias != nullptr) bias[at] = static_cast<T>(sums[0]);
    if (weight != nullptr) weight[at] = static_cast<T>(sums[1]);
  }
};

}  // namespace mezzo::kernels::cpu::detail
