// Parameters, statistics and sums of channel norms in the compute type, as the loops of all devices see them.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/norm/norm_layout.h"
#include "mezzo/kernels/norm/norm_math.h"

namespace mezzo::kernels {

/// ChannelStatistics and parameters.
template <class T>
struct ChannelArrays {
  ChannelArrays(const void* weights, const void* biases, const ChannelStatistics& statistics)
      : weight(static_cast<const T*>(weights)),
        bias(static_cast<const T*>(biases)),
        mean(static_cast<T*>(statistics.mean)),
        variance(static_cast<T*>(statistics.variance)),
        given(statistics.given) {}
  const T* weight;
  const T* bias;
  T* mean;
  T* variance;
  bool given;

  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T weight_of(std::int64_t channel) const {
    return weight != nullptr ? weight[channel] : T(1);
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T bias_of(std::int64_t channel) const {
    return bias != nullptr ? bias[channel] : T(0);
  }
  /// The function that normalizes a row of which the statistics are given.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE scalar::NormalizedFn<T> known(std::int64_t row,
                                                                           double eps) const {
    const auto spread = static_cast<double>(variance[row]);
    return {mean[row], scalar::reciprocal_deviation<T>(spread, eps), T(0)};
  }
  /// Stores the statistics of a row.
  MEZZO_HD MEZZO_ALWAYS_INLINE void keep(std::int64_t row, const scalar::Moments<T>& moments) const {
    if (mean != nullptr) mean[row] = static_cast<T>(moments.mean());
    if (variance != nullptr) variance[row] = static_cast<T>(moments.variance);
  }
};

/// Sums of backward; nullptr where they are not wanted.
template <class T>
struct ChannelSums {
  T* weight;
  T* bias;
  /// The sums of grad and of grad times the normalized x.
  MEZZO_HD MEZZO_ALWAYS_INLINE void store(std::int64_t at, double grads, double dots) const {
    if (bias != nullptr) bias[at] = static_cast<T>(grads);
    if (weight != nullptr) weight[at] = static_cast<T>(dots);
  }
};

}  // namespace mezzo::kernels
