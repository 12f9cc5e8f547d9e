// The samplers: every order is made from (seed, epoch) when it is asked for.
#include "mezzo/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/random.h"

namespace mezzo::data {

void detail::require_rank(std::string_view op, std::int64_t rank, std::int64_t num_replicas) {
  if (num_replicas >= 1 && rank >= 0 && rank < num_replicas) return;
  throw ValueError(op, "a rank from 0 to num_replicas - 1",
                   "rank " + std::to_string(rank) + " of " + std::to_string(num_replicas),
                   "count ranks from 0");
}

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

Indices counted(std::int64_t size) {
  Indices indices(static_cast<std::size_t>(size));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return indices;
}

/// A sampler of `size` indices whose orders a function makes.
class FunctionSampler final : public Sampler::Base {
 public:
  using Make = mezzo::detail::Function<Order(std::uint64_t epoch)>;
  /// `share`: the sampler takes one of the indices of all processes together, at their places in turn.
  FunctionSampler(std::int64_t size, Make make, const DistributedSamplerOptions& share = {})
      : size_(size), make_(std::move(make)), share_(share) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Order order(std::uint64_t epoch) const override { return make_(epoch); }
  [[nodiscard]] std::int64_t global_position(std::int64_t position) const override {
    return position * share_.num_replicas + share_.rank;
  }

 private:
  std::int64_t size_;
  Make make_;
  DistributedSamplerOptions share_;
};

/// `count` of the indices in random order (Fisher and Yates).
Order shuffled(Indices indices, std::int64_t count, Random random) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const auto left = static_cast<std::int64_t>(indices.size() - i);
    std::swap(indices[i], indices[i + static_cast<std::size_t>(random.integer(left))]);
  }
  indices.resize(static_cast<std::size_t>(count));
  return Order(std::move(indices));
}

/// `count` draws among `size`.
Order drawn(std::int64_t size, std::int64_t count, Random random) {
  Indices indices(static_cast<std::size_t>(count));
  for (std::int64_t& index : indices) index = random.integer(size);
  return Order(std::move(indices));
}

/// `count` places, each as likely as its weight is large; `sums`: of the weights up to each place.
Order drawn_by_weight(const std::vector<double>& sums, std::int64_t count, Random random) {
  Indices indices(static_cast<std::size_t>(count));
  for (std::int64_t& index : indices) {
    // The last place of a weight above 0 is below the sum, however the product is rounded.
    const double target = std::min(random.uniform() * sums.back(), std::nextafter(sums.back(), 0));
    index = std::upper_bound(sums.begin(), sums.end(), target) - sums.begin();
  }
  return Order(std::move(indices));
}

/// The same without replacement: the largest of u^(1 / weight). Source: Efraimidis and Spirakis, "Weighted
/// random sampling with a reservoir".
Order drawn_once(const std::vector<double>& weights, std::int64_t count, Random random) {
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exponential = -std::log1p(-random.uniform());
    if (weights[i] > 0) keys.emplace_back(exponential / weights[i], static_cast<std::int64_t>(i));
  }
  std::partial_sort(keys.begin(), keys.begin() + count, keys.end());
  Indices indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(keys[static_cast<std::size_t>(i)].second);
  return Order(std::move(indices));
}

}  // namespace

Order::Order(std::int64_t size, mezzo::detail::Function<std::int64_t(std::int64_t)> at)
    : size_(size), at_(std::move(at)) {}

Order::Order(std::vector<std::int64_t> indices) : size_(static_cast<std::int64_t>(indices.size())) {
  at_ = [shared = std::make_shared<const Indices>(std::move(indices))](std::int64_t position) {
    return (*shared)[static_cast<std::size_t>(position)];
  };
}

Sampler::Sampler(std::vector<std::int64_t> indices) {
  const Order order(std::move(indices));
  base_ = std::make_shared<FunctionSampler>(order.size(), [order](std::uint64_t /*epoch*/) { return order; });
}

Sampler::Sampler(mezzo::detail::Function<std::vector<std::int64_t>(std::uint64_t)> indices) {
  const auto size = static_cast<std::int64_t>(indices(0).size());
  base_ = std::make_shared<FunctionSampler>(size, [size, indices = std::move(indices)](std::uint64_t epoch) {
    Order order(indices(epoch));
    if (order.size() == size) return order;
    throw ValueError("Sampler", std::to_string(size) + " indices in epoch " + std::to_string(epoch),
                     std::to_string(order.size()), "return as many in every epoch");
  });
}

const Sampler::Base& Sampler::base() const {
  if (base_ == nullptr) throw ValueError("Sampler", "a sampler", "none", "make one, say RandomSampler(size)");
  return *base_;
}

Sampler SequentialSampler(std::int64_t size) {
  require_size("SequentialSampler", size, 0);
  return {std::make_shared<FunctionSampler>(
      size, [size](std::uint64_t /*epoch*/) { return Order(size, [](std::int64_t i) { return i; }); })};
}

Sampler RandomSampler(std::int64_t size, const RandomSamplerOptions& options) {
  constexpr const char* kOp = "RandomSampler";
  require_size(kOp, size, options.replacement ? 1 : 0);
  const std::int64_t count = options.num_samples == 0 ? size : options.num_samples;
  if (count < 0 || (!options.replacement && count > size)) {
    throw ValueError(kOp, "num_samples from 0 to " + std::to_string(size) + " without replacement",
                     std::to_string(count), "set replacement");
  }
  return {std::make_shared<FunctionSampler>(count, [size, count, options](std::uint64_t epoch) {
    const Random random = order_random(options.seed, epoch);
    return options.replacement ? drawn(size, count, random) : shuffled(counted(size), count, random);
  })};
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
  std::vector<double> numbers(weights.begin(), weights.end());
  if (options.replacement) std::partial_sum(weights.begin(), weights.end(), numbers.begin());
  return {
      std::make_shared<FunctionSampler>(num_samples, [numbers, num_samples, options](std::uint64_t epoch) {
        const Random random = order_random(options.seed, epoch);
        return options.replacement ? drawn_by_weight(numbers, num_samples, random)
                                   : drawn_once(numbers, num_samples, random);
      })};
}

Sampler SubsetRandomSampler(std::vector<std::int64_t> indices, std::uint64_t seed) {
  const auto size = static_cast<std::int64_t>(indices.size());
  return {std::make_shared<FunctionSampler>(size,
                                            [size, indices = std::move(indices), seed](std::uint64_t epoch) {
                                              return shuffled(indices, size, order_random(seed, epoch));
                                            })};
}

Sampler DistributedSampler(std::int64_t size, const DistributedSamplerOptions& options) {
  constexpr const char* kOp = "DistributedSampler";
  require_size(kOp, size, 1);
  detail::require_rank(kOp, options.rank, options.num_replicas);
  const Sampler whole =
      options.shuffle ? RandomSampler(size, {.seed = options.seed}) : SequentialSampler(size);
  const std::int64_t own =
      (options.drop_last ? size : size + options.num_replicas - 1) / options.num_replicas;
  const auto make = [=](std::uint64_t epoch) {
    return Order(own, [=, all = whole.order(epoch)](std::int64_t position) {
      return all[(position * options.num_replicas + options.rank) % size];
    });
  };
  return {std::make_shared<FunctionSampler>(own, make, options)};
}

}  // namespace mezzo::data
