// Data sets of samples that are had by their index, and how they are put together.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/collate.h"
#include "mezzo/data/random.h"

namespace mezzo::data {

/// The members of a program's own data set, which needs no base class:
///   struct Squares {
///     std::int64_t size() const { return 100; }
///     Example get(std::int64_t index) const { ... }    // or get(index, Random& random) where it draws
///     numbers
///   };
/// `get` is called from several threads at once. A sample is an Example, a Tensor, a number, a string, an
/// array, pair or tuple of these, or of any type if the loader is given a collate. Optional:
/// `get_batch(indices)`, which makes in one go what collating the samples would give.
template <class D>
concept MapStyle = requires(const D& dataset, std::int64_t index, Random& random) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
  requires requires { dataset.get(index); } || requires {
    dataset.get(index, random);
  };
};

namespace detail {

template <MapStyle D>
[[nodiscard]] auto get_sample(const D& dataset, std::int64_t index, Random& random) {
  if constexpr (requires { dataset.get(index, random); })
    return dataset.get(index, random);
  else
    return dataset.get(index);
}

/// f(x, random) or f(x).
template <class F, class X>
concept Transforms = std::invocable<const F&, X> || std::invocable<const F&, X, Random&>;
template <class F, class X>
requires Transforms<F, X>
[[nodiscard]] auto transformed(const F& f, X&& x, Random& random) {
  if constexpr (std::invocable<const F&, X, Random&>)
    return f(std::forward<X>(x), random);
  else
    return f(std::forward<X>(x));
}

/// Whether f changes the data of an Example alone.
template <class F, class S>
inline constexpr bool kOfData = !Transforms<F, S> && std::same_as<S, Example>;
template <class F, class S>
[[nodiscard]] auto transformed_sample(const F& f, S sample, Random& random) {
  if constexpr (kOfData<F, S>)
    return Example{transformed(f, std::move(sample.data), random), std::move(sample.target)};
  else
    return transformed(f, std::move(sample), random);
}

/// Throws: IndexError in the name of `op` unless 0 <= index < size.
void require_index(std::string_view op, std::int64_t index, std::int64_t size,
                   std::string_view fix = "size() is the number of samples");

}  // namespace detail

/// The type of a data set's samples.
template <MapStyle D>
using SampleOf = decltype(detail::get_sample(std::declval<const D&>(), 0, std::declval<Random&>()));

/// Any data set with samples of one type; copies share it. Made of anything that is MapStyle, or of a shared
/// pointer to it.
template <class S = Example>
class Dataset {
 public:
  using Sample = S;

  template <MapStyle D>
  requires(!std::same_as<D, Dataset> && std::same_as<SampleOf<D>, S>) Dataset(D dataset)
      : Dataset(std::make_shared<const D>(std::move(dataset))) {}
  template <MapStyle D>
  requires std::same_as<SampleOf<D>, S> Dataset(std::shared_ptr<D> dataset)
      : size_([dataset] { return static_cast<std::int64_t>(std::as_const(*dataset).size()); }),
        get_([dataset](std::int64_t index, Random& random) {
          return detail::get_sample(std::as_const(*dataset), index, random);
        }),
        get_batch_([dataset](std::span<const std::int64_t> indices) -> std::optional<BatchOf<S>> {
          if constexpr (requires { std::as_const(*dataset).get_batch(indices); })
            return std::as_const(*dataset).get_batch(indices);
          else
            return std::nullopt;
        }) {}

  [[nodiscard]] std::int64_t size() const { return size_(); }
  /// The sample's random numbers are a function of `random`, of the index where none is given.
  [[nodiscard]] S get(std::int64_t index, Random& random) const { return get_(index, random); }
  [[nodiscard]] S get(std::int64_t index) const {
    Random random(0, 0, static_cast<std::uint64_t>(index));
    return get(index, random);
  }
  /// The samples collated, if the data set has a way that is shorter than one by one.
  [[nodiscard]] std::optional<BatchOf<S>> get_batch(std::span<const std::int64_t> indices) const {
    return get_batch_(indices);
  }

 private:
  detail::Function<std::int64_t()> size_;
  detail::Function<S(std::int64_t, Random&)> get_;
  detail::Function<std::optional<BatchOf<S>>(std::span<const std::int64_t>)> get_batch_;
};
template <MapStyle D>
Dataset(D) -> Dataset<SampleOf<D>>;
template <MapStyle D>
Dataset(std::shared_ptr<D>) -> Dataset<SampleOf<D>>;

namespace detail {
/// Throws: ValueError unless all tensors are defined and equally long.
void check_tensors(std::span<const Tensor> tensors);
}  // namespace detail

/// Tensors whose first dim counts samples: of one a sample is a Tensor, of two an Example, of more an array.
///   data::TensorDataset dataset(images, labels);
///   data::DataLoader loader(data::TensorDataset{images}, {.batch_size = 64});  // braces: g++ takes (images)
///   for the declaration of a function
/// Throws: ValueError for undefined or 0-dim tensors and lengths that differ.
/// Source: torch.utils.data.TensorDataset.
template <std::size_t N>
class TensorDataset {
 public:
  using Sample =
      std::conditional_t<N == 1, Tensor, std::conditional_t<N == 2, Example, std::array<Tensor, N>>>;

  template <class... T>
  requires(sizeof...(T) == N && (std::convertible_to<T, Tensor> && ...)) TensorDataset(T... tensors)
      : tensors_{tensors.detach()...} {
    detail::check_tensors(tensors_);
  }
  [[nodiscard]] std::int64_t size() const { return tensors_[0].size(0); }
  /// Views of the tensors.
  [[nodiscard]] Sample get(std::int64_t index) const {
    detail::require_index("TensorDataset.get", index, size(), "");
    return of_each([&](const Tensor& tensor) { return tensor.select(0, index); });
  }
  [[nodiscard]] Sample get_batch(std::span<const std::int64_t> indices) const {
    return of_each([&](const Tensor& tensor) { return gather_samples(tensor, indices); });
  }
  [[nodiscard]] const std::array<Tensor, N>& tensors() const& noexcept { return tensors_; }
  [[nodiscard]] std::array<Tensor, N> tensors() && { return std::move(tensors_); }

 private:
  template <class F>
  [[nodiscard]] Sample of_each(F f) const {
    return std::apply([&](const auto&... tensor) { return Sample{f(tensor)...}; }, tensors_);
  }

  std::array<Tensor, N> tensors_;
};
template <class... T>
TensorDataset(T...) -> TensorDataset<sizeof...(T)>;

/// Data sets one behind the other.
template <class S>
class ConcatDataset {
 public:
  /// Throws: ValueError for no data set.
  explicit ConcatDataset(std::vector<Dataset<S>> datasets) : datasets_(std::move(datasets)) {
    for (const Dataset<S>& dataset : datasets_)
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + dataset.size());
    detail::require_index("ConcatDataset", 0, static_cast<std::int64_t>(datasets_.size()), "");
  }
  template <MapStyle... D>
  explicit ConcatDataset(D... datasets) : ConcatDataset(std::vector<Dataset<S>>{std::move(datasets)...}) {}
  [[nodiscard]] std::int64_t size() const { return ends_.back(); }
  [[nodiscard]] S get(std::int64_t index, Random& random) const {
    detail::require_index("ConcatDataset.get", index, size(), "");
    std::size_t i = 0;
    while (index >= ends_[i]) ++i;
    return datasets_[i].get(i == 0 ? index : index - ends_[i - 1], random);
  }

 private:
  std::vector<Dataset<S>> datasets_;
  std::vector<std::int64_t> ends_;
};
template <MapStyle First, MapStyle... D>
ConcatDataset(First, D...) -> ConcatDataset<SampleOf<First>>;

/// The samples at these indices of another data set. Throws: IndexError for one that is not there.
template <class S>
class Subset {
 public:
  Subset(Dataset<S> dataset, std::vector<std::int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {
    for (const std::int64_t index : indices_) detail::require_index("Subset", index, dataset_.size(), "");
  }
  template <MapStyle D>
  Subset(D dataset, std::vector<std::int64_t> indices)
      : Subset(Dataset<S>(std::move(dataset)), std::move(indices)) {}
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(indices_.size()); }
  [[nodiscard]] S get(std::int64_t index, Random& random) const {
    return dataset_.get(of_whole(index), random);
  }
  [[nodiscard]] std::optional<BatchOf<S>> get_batch(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> whole;
    for (const std::int64_t index : indices) whole.push_back(of_whole(index));
    return dataset_.get_batch(whole);
  }
  [[nodiscard]] const std::vector<std::int64_t>& indices() const& noexcept { return indices_; }
  [[nodiscard]] std::vector<std::int64_t> indices() && { return std::move(indices_); }

 private:
  [[nodiscard]] std::int64_t of_whole(std::int64_t index) const {
    detail::require_index("Subset.get", index, size(), "");
    return indices_[static_cast<std::size_t>(index)];
  }

  Dataset<S> dataset_;
  std::vector<std::int64_t> indices_;
};
template <MapStyle D>
Subset(D, std::vector<std::int64_t>) -> Subset<SampleOf<D>>;

/// A data set whose samples go through `f`: f(sample) or f(sample, Random&). Of an Example, a function that
/// takes a Tensor changes the data alone.
template <MapStyle D, class F>
class TransformedDataset {
 public:
  using Source = SampleOf<D>;
  static_assert(
      detail::kOfData<F, Source> ? detail::Transforms<F, Tensor> : detail::Transforms<F, Source>,
      "a transform takes a sample of the data set (or the tensor `data` of an Example), and may take a "
      "data::Random& after it");

  TransformedDataset(D dataset, F f) : dataset_(std::move(dataset)), f_(std::move(f)) {}
  [[nodiscard]] std::int64_t size() const { return dataset_.size(); }
  [[nodiscard]] auto get(std::int64_t index, Random& random) const {
    return detail::transformed_sample(f_, detail::get_sample(dataset_, index, random), random);
  }

 private:
  D dataset_;
  F f_;
};

/// `data::transform(dataset, f)`: a TransformedDataset.
template <MapStyle D, class F>
[[nodiscard]] TransformedDataset<D, F> transform(D dataset, F f) {
  return {std::move(dataset), std::move(f)};
}

namespace detail {
/// A random order of [0, size) in parts of these lengths, or of these shares if they add up to 1.
[[nodiscard]] std::vector<std::vector<std::int64_t>> split_indices(std::int64_t size,
                                                                   std::span<const double> lengths,
                                                                   std::uint64_t seed);
}  // namespace detail

/// Parts of a data set without common samples, chosen at random: of these lengths, which add up to its size,
/// or of these shares, which add up to 1 (what rounding leaves goes to the first parts, one each).
///   const auto [train, test] = data::random_split<2>(dataset, {0.8, 0.2});
/// Throws: ValueError for lengths that are negative or have another sum.
/// Source: torch.utils.data.random_split.
template <std::size_t N, MapStyle D>
[[nodiscard]] std::array<Subset<SampleOf<D>>, N> random_split(D dataset, const double (&lengths)[N],
                                                              std::uint64_t seed = 0) {
  const Dataset<SampleOf<D>> whole(std::move(dataset));
  auto parts = detail::split_indices(whole.size(), lengths, seed);
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Subset<SampleOf<D>>, N>{Subset<SampleOf<D>>(whole, std::move(parts[I]))...};
  }
  (std::make_index_sequence<N>());
}

}  // namespace mezzo::data
