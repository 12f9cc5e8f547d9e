// Data sets that are read from front to back: streams, generators, files too large for an index.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "mezzo/core/function.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/random.h"
#include "mezzo/data/sampler.h"

namespace mezzo::data {

namespace detail {
template <class T>
struct OptionalValue;
template <class T>
struct OptionalValue<std::optional<T>> {
  using type = T;
};
/// The type of the samples that the generators of a function `start` give.
template <class F>
using GeneratedBy =
    typename OptionalValue<std::invoke_result_t<std::invoke_result_t<F&, std::uint64_t>&>>::type;
}  // namespace detail

/// Samples in the order in which they come. `start(epoch)` begins an epoch: it returns a function that gives
/// a sample at each call, and std::nullopt at the end.
///   data::IterableDataset numbers([](std::uint64_t) {
///     return [i = 0]() mutable { return i < 10 ? std::optional(i++) : std::nullopt; };
///   });
/// A loader calls that function on one thread at a time, in order. Copies share `start`.
/// Source: torch.utils.data.IterableDataset.
template <class S = Example>
class IterableDataset {
 public:
  using Sample = S;
  /// Makes a sample that was read: the part of the work that workers share.
  using Deferred = mezzo::detail::Function<S(Random&)>;
  using Generator = mezzo::detail::Function<std::optional<Deferred>()>;

  template <class F>
  requires(!std::same_as<F, IterableDataset>) IterableDataset(F start)
      : start_([start = std::move(start)](std::uint64_t epoch) mutable -> Generator {
          return [next = start(epoch)]() mutable -> std::optional<Deferred> {
            std::optional<S> sample = next();
            if (!sample) return std::nullopt;
            return Deferred([sample = std::move(*sample)](Random&) { return sample; });
          };
        }) {}
  /// A start whose generators give Deferred samples, which the loader's workers make.
  struct Deferring {
    mezzo::detail::Function<Generator(std::uint64_t)> start;
  };
  IterableDataset(Deferring deferring) : start_(std::move(deferring.start)) {}

  [[nodiscard]] Generator start(std::uint64_t epoch) const { return start_(epoch); }

 private:
  mezzo::detail::Function<Generator(std::uint64_t)> start_;
};
template <class F>
IterableDataset(F) -> IterableDataset<detail::GeneratedBy<F>>;

/// The samples go through `f`, on the workers of a loader: f(sample) or f(sample, Random&). Of an Example, a
/// function that takes a Tensor changes the data alone.
template <class S, class F>
[[nodiscard]] auto transform(const IterableDataset<S>& dataset, F f) {
  const auto apply = [f = std::move(f)](S sample, Random& random) {
    return detail::transformed_sample(f, std::move(sample), random);
  };
  using Result = IterableDataset<decltype(apply(std::declval<S>(), std::declval<Random&>()))>;
  using Deferred = typename Result::Deferred;
  return Result(
      typename Result::Deferring{[dataset, apply](std::uint64_t epoch) -> typename Result::Generator {
        return [next = dataset.start(epoch), apply]() mutable -> std::optional<Deferred> {
          auto read = next();
          if (!read) return std::nullopt;
          return Deferred([read = std::move(*read), apply](Random& random) mutable {
            return apply(read(random), random);
          });
        };
      }});
}

/// Every num_replicas-th sample, from number `rank` on: the share of one process. All processes read all
/// samples. Throws: ValueError for a rank outside of [0, num_replicas).
template <class S>
[[nodiscard]] IterableDataset<S> shard(const IterableDataset<S>& dataset, std::int64_t rank,
                                       std::int64_t num_replicas) {
  detail::require_rank("shard", rank, num_replicas);
  using Generator = typename IterableDataset<S>::Generator;
  return
      typename IterableDataset<S>::Deferring{[dataset, rank, num_replicas](std::uint64_t epoch) -> Generator {
        return [next = dataset.start(epoch), skip = rank, num_replicas]() mutable {
          for (; skip > 0; --skip) {
            if (!next()) break;
          }
          skip = num_replicas - 1;
          return next();
        };
      }};
}

}  // namespace mezzo::data
