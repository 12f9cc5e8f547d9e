// Samplers: in which order an epoch takes the samples of a data set. A sampler has no state: the order of an
// epoch is a function of the sampler's seed and the number of the epoch, so it can be had again, from any
// place on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/core/scope.h"

namespace mezzo::data {

namespace detail {
/// Throws: ValueError in the name of `op` unless 0 <= rank < num_replicas.
void require_rank(std::string_view op, std::int64_t rank, std::int64_t num_replicas);
}  // namespace detail

/// The indices that an epoch takes, by their place in it.
class Order {
 public:
  /// `at(position)` for positions in [0, size). May be called from several threads.
  Order(std::int64_t size, mezzo::detail::Function<std::int64_t(std::int64_t)> at);
  /// An order given as a list.
  explicit Order(std::vector<std::int64_t> indices);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t operator[](std::int64_t position) const { return at_(position); }

 private:
  std::int64_t size_;
  mezzo::detail::Function<std::int64_t(std::int64_t)> at_;
};

/// Any sampler; copies share it. Made of the samplers below, of indices, and of what a program writes: a
/// callable that takes the number of the epoch and returns a vector of indices, which all have the same
/// length.
class Sampler {
 public:
  /// The base class of samplers.
  class Base : mezzo::detail::NoCopy {
   public:
    Base() = default;
    virtual ~Base() = default;
    /// Indices in an epoch.
    [[nodiscard]] virtual std::int64_t size() const = 0;
    /// May be called from several threads.
    [[nodiscard]] virtual Order order(std::uint64_t epoch) const = 0;
    /// Place in the order of all processes together; it seeds the sample's random numbers.
    [[nodiscard]] virtual std::int64_t global_position(std::int64_t position) const { return position; }
  };

  /// None: a loader then takes all samples, shuffled or not.
  Sampler() noexcept = default;
  Sampler(std::shared_ptr<const Base> base) noexcept : base_(std::move(base)) {}
  /// A fixed list of indices, in this order in every epoch.
  Sampler(std::vector<std::int64_t> indices);
  /// `indices(epoch)`. It is called once here, with epoch 0, for the length. Throws: ValueError, when an
  /// epoch is begun, for another length.
  Sampler(mezzo::detail::Function<std::vector<std::int64_t>(std::uint64_t)> indices);

  explicit operator bool() const noexcept { return base_ != nullptr; }
  [[nodiscard]] std::int64_t size() const { return base().size(); }
  [[nodiscard]] Order order(std::uint64_t epoch) const { return base().order(epoch); }
  [[nodiscard]] std::int64_t global_position(std::int64_t position) const {
    return base().global_position(position);
  }

 private:
  /// Throws: ValueError for none.
  [[nodiscard]] const Base& base() const;

  std::shared_ptr<const Base> base_;
};

// Each of these makes a Sampler. Throws: ValueError for sizes, counts, weights and ranks that make no sense.
// Source: torch.utils.data.

/// 0, 1, ..., size - 1.
[[nodiscard]] Sampler SequentialSampler(std::int64_t size);

struct RandomSamplerOptions {
  std::uint64_t seed = 0;
  bool replacement = false;  ///< each draw among all
  std::int64_t num_samples =
      0;  ///< in an epoch; 0: as many as there are. More than that only with replacement
};
/// A new order in every epoch.
[[nodiscard]] Sampler RandomSampler(std::int64_t size, const RandomSamplerOptions& options = {});

struct WeightedRandomSamplerOptions {
  std::uint64_t seed = 0;
  bool replacement = true;
};
/// `num_samples` draws among the weights' places, each as likely as its weight is large. Without replacement
/// an epoch draws one after the other among those that are left, so at most as many as have a weight above 0.
[[nodiscard]] Sampler WeightedRandomSampler(std::span<const double> weights, std::int64_t num_samples,
                                            const WeightedRandomSamplerOptions& options = {});

/// These indices, in a new order in every epoch.
[[nodiscard]] Sampler SubsetRandomSampler(std::vector<std::int64_t> indices, std::uint64_t seed = 0);

struct DistributedSamplerOptions {
  std::int64_t num_replicas = 1;  ///< processes
  std::int64_t rank = 0;          ///< this one's number, in [0, num_replicas)
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< the same in all processes
  bool drop_last = false;  ///< leave the last samples out rather than take the first ones again
};
/// This process's share: every num_replicas-th place of one order, from its rank on. All ranks have equally
/// many. The processes together take the same samples in the same order, however many they are, but for
/// samples that are taken again or left out at the end to make the shares equal. Batches of B / num_replicas
/// samples in each process make up the batches of B samples of a single process.
[[nodiscard]] Sampler DistributedSampler(std::int64_t size, const DistributedSamplerOptions& options);

}  // namespace mezzo::data
