// Axes: where ticks stand, and what is written beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::train::detail {

struct Range {
  double low = 0, high = 1;
};
/// A range with room around, for values from low to high: never empty, positive on a log scale.
[[nodiscard]] Range padded(Range values, bool log_scale);
/// About `wanted` round numbers (1, 2 or 5 times a power of ten apart) in the range.
[[nodiscard]] std::vector<double> linear_ticks(Range range, int wanted);
/// Powers of ten in the range, thinned to about `wanted`; where these are fewer than two, also 2 and 5 times
/// such, and where these are fewer than two, linear ones.
[[nodiscard]] std::vector<double> log_ticks(Range range, int wanted);
/// 1500000 as "1.5M", 0.00001 as "1e-5", 0.25 as "0.25".
[[nodiscard]] std::string tick_text(double value);

}  // namespace mezzo::train::detail
