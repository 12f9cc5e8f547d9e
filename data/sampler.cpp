// The samplers: every order is made from (seed, epoch) when it is asked for.
#include "mezzo/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/random.h"

namespace mezzo::data {

namespace {

using Indices = std::vector<std::int64_t>;

/// A sequence of its own for the orders of an epoch: no sample has this place.
Random order_random(std::uint64_t seed, std::uint64_t epoch) { return {seed, epoch, ~std::uint64_t{0}}; }

void require_size(const char* op, std::int64_t size, std::int64_t least) {
  if (size < least) {
    throw ValueError(op,
                     least == 0 ? "a size of at least 0" : "at least " + std::to_string(least) + " sample",
                     std::to_string(size), "");
  }
}

/// The first `count` elements are a random choice, in random order (Fisher and Yates).
void shuffle(std::span<std::int64_t> values, std::size_t count, Random& random) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto left = static_cast<std::int64_t>(values.size() - i);
    std::swap(values[i], values[i + static_cast<std::size_t>(random.integer(left))]);
  }
}

Indices counted(std::int64_t size) {
  Indices indices(static_cast<std::size_t>(size));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return indices;
}

class OfIndices final : public Sampler::Base {
 public:
  explicit OfIndices(Indices indices) : indices_(std::make_shared<const Indices>(std::move(indices))) {}
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(indices_->size()); }
  [[nodiscard]] Order order(std::uint64_t /*epoch*/) const override {
    return {size(), [indices = indices_](std::int64_t i) { return (*indices)[static_cast<std::size_t>(i)]; }};
  }

 private:
  std::shared_ptr<const Indices> indices_;
};

class OfFunction final : public Sampler::Base {
 public:
  explicit OfFunction(mezzo::detail::Function<Indices(std::uint64_t)> indices)
      : indices_(std::move(indices)), size_(static_cast<std::int64_t>(indices_(0).size())) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Order order(std::uint64_t epoch) const override {
    Indices indices = indices_(epoch);
    if (static_cast<std::int64_t>(indices.size()) != size_) {
      throw ValueError("Sampler", std::to_string(size_) + " indices in epoch " + std::to_string(epoch),
                       std::to_string(indices.size()), "return as many in every epoch");
    }
    return Order(std::move(indices));
  }

 private:
  mezzo::detail::Function<Indices(std::uint64_t)> indices_;
  std::int64_t size_;
};

class Sequential final : public Sampler::Base {
 public:
  explicit Sequential(std::int64_t size) : size_(size) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Order order(std::uint64_t /*epoch*/) const override {
    return {size_, [](std::int64_t i) { return i; }};
  }

 private:
  std::int64_t size_;
};

/// `count` of the indices in random order.
Order shuffled(Indices indices, std::int64_t count, std::uint64_t seed, std::uint64_t epoch) {
  Random random = order_random(seed, epoch);
  shuffle(indices, static_cast<std::size_t>(count), random);
  indices.resize(static_cast<std::size_t>(count));
  return Order(std::move(indices));
}

class Permuted final : public Sampler::Base {
 public:
  Permuted(std::int64_t size, std::int64_t count, std::uint64_t seed)
      : size_(size), count_(count), seed_(seed) {}
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] Order order(std::uint64_t epoch) const override {
    return shuffled(counted(size_), count_, seed_, epoch);
  }

 private:
  std::int64_t size_, count_;
  std::uint64_t seed_;
};

class ShuffledSubset final : public Sampler::Base {
 public:
  ShuffledSubset(Indices indices, std::uint64_t seed) : indices_(std::move(indices)), seed_(seed) {}
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  [[nodiscard]] Order order(std::uint64_t epoch) const override {
    return shuffled(indices_, size(), seed_, epoch);
  }

 private:
  Indices indices_;
  std::uint64_t seed_;
};

class WithReplacement final : public Sampler::Base {
 public:
  WithReplacement(std::int64_t size, std::int64_t count, std::uint64_t seed)
      : size_(size), count_(count), seed_(seed) {}
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] Order order(std::uint64_t epoch) const override {
    Random random = order_random(seed_, epoch);
    Indices indices(static_cast<std::size_t>(count_));
    for (std::int64_t& index : indices) index = random.integer(size_);
    return Order(std::move(indices));
  }

 private:
  std::int64_t size_, count_;
  std::uint64_t seed_;
};

class Weighted final : public Sampler::Base {
 public:
  Weighted(std::span<const double> weights, std::int64_t count, const WeightedRandomSamplerOptions& options)
      : weights_(weights.begin(), weights.end()), sums_(weights.size()), count_(count), options_(options) {
    std::partial_sum(weights_.begin(), weights_.end(), sums_.begin());
  }
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] Order order(std::uint64_t epoch) const override {
    Random random = order_random(options_.seed, epoch);
    return Order(options_.replacement ? drawn(random) : drawn_once(random));
  }

 private:
  [[nodiscard]] Indices drawn(Random& random) const {
    Indices indices(static_cast<std::size_t>(count_));
    for (std::int64_t& index : indices) {
      // The last place of a weight above 0 is below the sum, however the product is rounded.
      const double target = std::min(random.uniform() * sums_.back(), std::nextafter(sums_.back(), 0));
      index = std::upper_bound(sums_.begin(), sums_.end(), target) - sums_.begin();
    }
    return indices;
  }
  /// The largest of u^(1 / weight). Source: Efraimidis and Spirakis, "Weighted random sampling with a
  /// reservoir".
  [[nodiscard]] Indices drawn_once(Random& random) const {
    std::vector<std::pair<double, std::int64_t>> keys;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const double exponential = -std::log1p(-random.uniform());
      if (weights_[i] > 0) keys.emplace_back(exponential / weights_[i], static_cast<std::int64_t>(i));
    }
    std::partial_sort(keys.begin(), keys.begin() + count_, keys.end());
    Indices indices;
    for (std::int64_t i = 0; i < count_; ++i) indices.push_back(keys[static_cast<std::size_t>(i)].second);
    return indices;
  }

  std::vector<double> weights_, sums_;
  std::int64_t count_;
  WeightedRandomSamplerOptions options_;
};

class Distributed final : public Sampler::Base {
 public:
  Distributed(std::int64_t size, const DistributedSamplerOptions& options)
      : samples_(size),
        options_(options),
        size_(options.drop_last ? size / options.num_replicas
                                : (size + options.num_replicas - 1) / options.num_replicas) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Order order(std::uint64_t epoch) const override {
    const Order all =
        (options_.shuffle ? RandomSampler(samples_, {.seed = options_.seed}) : SequentialSampler(samples_))
            .order(epoch);
    return {size_, [all, self = options_, samples = samples_](std::int64_t position) {
              return all[(position * self.num_replicas + self.rank) % samples];
            }};
  }
  [[nodiscard]] std::int64_t global_position(std::int64_t position) const override {
    return position * options_.num_replicas + options_.rank;
  }

 private:
  std::int64_t samples_;
  DistributedSamplerOptions options_;
  std::int64_t size_;
};

}  // namespace

Order::Order(std::int64_t size, mezzo::detail::Function<std::int64_t(std::int64_t)> at)
    : size_(size), at_(std::move(at)) {}

Order::Order(std::vector<std::int64_t> indices) : size_(static_cast<std::int64_t>(indices.size())) {
  at_ = [shared = std::make_shared<const Indices>(std::move(indices))](std::int64_t position) {
    return (*shared)[static_cast<std::size_t>(position)];
  };
}

Sampler::Sampler(std::vector<std::int64_t> indices)
    : base_(std::make_shared<OfIndices>(std::move(indices))) {}

Sampler::Sampler(mezzo::detail::Function<std::vector<std::int64_t>(std::uint64_t)> indices)
    : base_(std::make_shared<OfFunction>(std::move(indices))) {}

const Sampler::Base& Sampler::base() const {
  if (base_ == nullptr) throw ValueError("Sampler", "a sampler", "none", "make one, say RandomSampler(size)");
  return *base_;
}

Sampler SequentialSampler(std::int64_t size) {
  require_size("SequentialSampler", size, 0);
  return {std::make_shared<Sequential>(size)};
}

Sampler RandomSampler(std::int64_t size, const RandomSamplerOptions& options) {
  constexpr const char* kOp = "RandomSampler";
  require_size(kOp, size, options.replacement ? 1 : 0);
  const std::int64_t count = options.num_samples == 0 ? size : options.num_samples;
  if (count < 0 || (!options.replacement && count > size)) {
    throw ValueError(kOp, "num_samples from 0 to " + std::to_string(size) + " without replacement",
                     std::to_string(count), "set replacement");
  }
  if (options.replacement) return {std::make_shared<WithReplacement>(size, count, options.seed)};
  return {std::make_shared<Permuted>(size, count, options.seed)};
}

Sampler WeightedRandomSampler(std::span<const double> weights, std::int64_t num_samples,
                              const WeightedRandomSamplerOptions& options) {
  constexpr const char* kOp = "WeightedRandomSampler";
  double sum = 0;
  std::int64_t positive = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight))
      throw ValueError(kOp, "weights that are finite and not negative", number_text(weight), "");
    sum += weight;
    if (weight > 0) ++positive;
  }
  if (!(sum > 0) || !std::isfinite(sum))
    throw ValueError(kOp, "weights with a positive, finite sum", number_text(sum), "scale them");
  if (num_samples < 0 || (!options.replacement && num_samples > positive)) {
    throw ValueError(kOp,
                     "num_samples from 0 to " + std::to_string(positive) +
                         ", as many as have a weight, without replacement",
                     std::to_string(num_samples), "set replacement");
  }
  return {std::make_shared<Weighted>(weights, num_samples, options)};
}

Sampler SubsetRandomSampler(std::vector<std::int64_t> indices, std::uint64_t seed) {
  return {std::make_shared<ShuffledSubset>(std::move(indices), seed)};
}

Sampler DistributedSampler(std::int64_t size, const DistributedSamplerOptions& options) {
  constexpr const char* kOp = "DistributedSampler";
  require_size(kOp, size, 1);
  if (options.num_replicas < 1 || options.rank < 0 || options.rank >= options.num_replicas) {
    throw ValueError(kOp, "a rank from 0 to num_replicas - 1",
                     "rank " + std::to_string(options.rank) + " of " + std::to_string(options.num_replicas),
                     "count ranks from 0");
  }
  return {std::make_shared<Distributed>(size, options)};
}

}  // namespace mezzo::data
