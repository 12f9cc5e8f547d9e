// Buckets of points, merged in pairs where they are too many.
#include "mezzo/train/logging/thin_series.h"

#include <algorithm>
#include <cmath>

namespace mezzo::train::detail {

namespace {

/// `next` behind `bucket`, into it.
void merge_into(ThinBucket& bucket, const ThinBucket& next) {
  const auto size = static_cast<double>(bucket.count - bucket.bad);
  const auto next_size = static_cast<double>(next.count - next.bad);
  if (!bucket.has_values()) {
    bucket.mean = next.mean;
    bucket.first = next.first;
    bucket.least = next.least;
    bucket.largest = next.largest;
    bucket.last = next.last;
  } else if (next.has_values()) {
    if (next.least.value < bucket.least.value) bucket.least = next.least;
    if (next.largest.value > bucket.largest.value) bucket.largest = next.largest;
    bucket.last = next.last;
    // Shares, as the sum of large values may be infinite.
    const double mean =
        bucket.mean * (size / (size + next_size)) + next.mean * (next_size / (size + next_size));
    bucket.mean = std::clamp(mean, bucket.least.value, bucket.largest.value);
  }
  bucket.end = next.end;
  bucket.count += next.count;
  bucket.bad += next.bad;
}

}  // namespace

void ThinSeries::add(std::int64_t step, double value) {
  const ThinPoint point{step, value};
  const ThinBucket one{step, step, 1, std::isfinite(value) ? 0 : 1, point, point, point, point, value};
  if (!buckets_.empty() && buckets_.back().count < stride_) {
    merge_into(buckets_.back(), one);
  } else {
    if (buckets_.size() == kCapacity) halve();
    // After halving an odd number the last one has room.
    if (!buckets_.empty() && buckets_.back().count < stride_) {
      merge_into(buckets_.back(), one);
    } else {
      buckets_.push_back(one);
    }
  }
  newest_ = point;
}

void ThinSeries::add(const ThinBucket& bucket) {
  if (buckets_.size() == kCapacity) halve();
  buckets_.push_back(bucket);
  stride_ = std::max(stride_, bucket.count);
  if (bucket.has_values()) newest_ = bucket.last;
}

void ThinSeries::halve() {
  for (std::size_t i = 0; i < buckets_.size(); i += 2) {
    ThinBucket bucket = buckets_[i];
    if (i + 1 < buckets_.size()) merge_into(bucket, buckets_[i + 1]);
    buckets_[i / 2] = bucket;
  }
  buckets_.resize((buckets_.size() + 1) / 2);
  stride_ *= 2;
}

void ThinSeries::drop_after(std::int64_t step) {
  while (!buckets_.empty() && buckets_.back().end > step) buckets_.pop_back();
  newest_ = {};
  for (const ThinBucket& bucket : buckets_) {
    if (bucket.has_values()) newest_ = bucket.last;
  }
}

}  // namespace mezzo::train::detail
