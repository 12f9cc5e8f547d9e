// A series of any length in bounded memory, such that a plot of it looks as one of all points does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mezzo::train::detail {

struct ThinPoint {
  std::int64_t step = 0;
  double value = 0;
};
/// Neighbouring points as one: the first, the last, the least and the largest of those that are finite. A
/// line through these has the pixels of a line through all, where a bucket is a column of them. Source: Jugel
/// et al., "M4: A Visualization-Oriented Time Series Data Aggregation", VLDB 2014.
struct ThinBucket {
  std::int64_t begin = 0, end = 0;  ///< steps of the first and the last point, finite or not
  std::int64_t count = 0, bad = 0;  ///< points, and those of them that are not finite
  ThinPoint first, last, least, largest;
  double mean = 0;  ///< of the finite points

  [[nodiscard]] bool has_values() const noexcept { return count > bad; }
};

/// Keeps up to kCapacity buckets of as many points each; when they are full, pairs become one.
class ThinSeries {
 public:
  static constexpr std::size_t kCapacity = 400;

  /// Steps do not go back.
  void add(std::int64_t step, double value);
  /// A bucket that was saved. It counts as full if it has as many points as the first one.
  void add(const ThinBucket& bucket);
  /// Forgets points of later steps. A bucket that has some goes as a whole.
  void drop_after(std::int64_t step);

  [[nodiscard]] const std::vector<ThinBucket>& buckets() const noexcept { return buckets_; }
  [[nodiscard]] bool empty() const noexcept { return buckets_.empty(); }
  /// The newest value, which need not be finite; of a series that was saved the last finite one.
  [[nodiscard]] ThinPoint newest() const noexcept { return newest_; }

 private:
  void halve();

  std::int64_t stride_ = 1;  // points of a full bucket
  std::vector<ThinBucket> buckets_;
  ThinPoint newest_;
};

}  // namespace mezzo::train::detail
