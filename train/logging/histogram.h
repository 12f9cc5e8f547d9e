// Histograms as TensorBoard has them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mezzo::train::detail {

/// Of the finite values. Bucket k counts those from the limit before it (included) to limits[k] (excluded);
/// the first has no values and only gives the lowest limit. Limits grow by a tenth from 1e-12 to 1e20, on
/// both sides of 0. Source: tensorflow/core/lib/histogram, torch.utils.tensorboard's make_histogram.
struct Histogram {
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  std::int64_t count = 0;
  std::vector<double> limits, counts;
};
/// Without buckets when no value is finite. Values beyond the last limits count in the outermost buckets.
[[nodiscard]] Histogram histogram_of(std::span<const double> values);

}  // namespace mezzo::train::detail
