// Counts values into buckets of exponential size.
#include "mezzo/train/logging/histogram.h"

#include <algorithm>
#include <cmath>

namespace mezzo::train::detail {

namespace {

std::vector<double> bucket_limits() {
  std::vector<double> positive;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  std::vector<double> limits;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

}  // namespace

Histogram histogram_of(std::span<const double> values) {
  static const std::vector<double> all_limits = bucket_limits();
  Histogram result;
  std::vector<double> counts(all_limits.size() - 1);
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    result.min = result.count == 0 ? value : std::min(result.min, value);
    result.max = result.count == 0 ? value : std::max(result.max, value);
    result.sum += value;
    result.sum_squares += value * value;
    ++result.count;
    const auto above = std::upper_bound(all_limits.begin(), all_limits.end(), value) - all_limits.begin();
    const auto last = static_cast<std::ptrdiff_t>(counts.size()) - 1;
    ++counts[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(above - 1, 0, last))];
  }
  if (result.count == 0) return result;
  std::size_t begin = 0, end = counts.size();
  while (counts[begin] == 0) ++begin;
  while (counts[end - 1] == 0) --end;
  result.limits.assign(all_limits.begin() + static_cast<std::ptrdiff_t>(begin),
                       all_limits.begin() + static_cast<std::ptrdiff_t>(end) + 1);
  result.counts.push_back(0);
  result.counts.insert(result.counts.end(), counts.begin() + static_cast<std::ptrdiff_t>(begin),
                       counts.begin() + static_cast<std::ptrdiff_t>(end));
  return result;
}

}  // namespace mezzo::train::detail
