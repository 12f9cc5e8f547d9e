// DataLoader: the batches of a data set, epoch after epoch, made ahead of the loop by worker threads.
//   data::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers = 2});
//   for (int epoch = 0; epoch < 10; ++epoch)
//     for (const auto& [x, y] : loader) { ... }
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mezzo/core/device.h"
#include "mezzo/core/function.h"
#include "mezzo/core/value.h"
#include "mezzo/data/batch_queue.h"
#include "mezzo/data/collate.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/iterable.h"
#include "mezzo/data/random.h"
#include "mezzo/data/sampler.h"

namespace mezzo::data {

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;     ///< a new random order in every epoch
  bool drop_last = false;   ///< leave out a last batch that is not full
  Sampler sampler = {};     ///< in place of shuffle
  std::uint64_t seed = 0;   ///< of the order, and of what data set and transforms draw
  int num_workers = 0;      ///< threads; with 0 the loop's thread makes the batches
  int prefetch_factor = 2;  ///< batches that each worker may have ready
  /// Where batches are brought. A CUDA device gets them in a stream of the loader's, through pinned memory,
  /// before the loop asks for them (with workers).
  Device device = Device::cpu();
};

namespace detail {

/// The sampler in the options, else one that takes all `size` samples, shuffled or not.
[[nodiscard]] Sampler sampler_of(const DataLoaderOptions& options, std::int64_t size);

/// Where a loader is.
struct LoaderPosition {
  std::uint64_t epoch = 0;
  std::int64_t batch = 0;  ///< batches of the epoch that the loop has had
};

/// Which samples of each batch a loader takes: the share of this process.
struct BatchShare {
  std::int64_t rank = 0, size = 1;
  bool can_be_empty = true;  ///< of a type whose tensors the loader knows

  /// Places in a batch of so many samples: [first, last).
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> of(std::int64_t samples) const noexcept {
    return {samples * rank / size, samples * (rank + 1) / size};
  }
  /// Throws: ValueError, on all ranks, where one of them could not be given its part of such a batch.
  void require_samples(std::int64_t samples) const;
};

/// The part of DataLoader that does not depend on the batch type.
class LoaderBase : mezzo::detail::NoCopy {
 public:
  /// Number of the epoch that the loop is in, or that it begins next.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return position_.epoch; }
  /// The next epoch is this one, from its beginning. A loop that is under way ends with its batch.
  void set_epoch(std::uint64_t epoch);
  /// Batches in an epoch. Throws: ValueError for an iterable data set, whose end nobody knows.
  [[nodiscard]] std::int64_t size() const;
  /// size(), or std::nullopt for an iterable data set.
  [[nodiscard]] std::optional<std::int64_t> find_size() const;
  [[nodiscard]] const DataLoaderOptions& options() const noexcept { return options_; }

  /// From the next loop on only a part of every batch is loaded and handed out: of B samples those at [B rank
  /// / size, B (rank + 1) / size), so that `size` processes together have the batches of one. batch_size,
  /// order, size(), state_dict() and the samples' random numbers are those of the whole batches. A part
  /// without samples is a batch whose tensors have a first dim of 0. A collate sees the samples of the part.
  /// Throws: ValueError unless rank is in [0, size); in the loop, on all ranks, for a batch of fewer samples
  /// than ranks whose type the loader does not know.
  void set_share(std::int64_t rank, std::int64_t size);
  [[nodiscard]] std::int64_t share_rank() const noexcept { return share_.rank; }
  [[nodiscard]] std::int64_t share_size() const noexcept { return share_.size; }
  /// Samples of the last batch that the loop has got, over all shares; 0 before the first.
  [[nodiscard]] std::int64_t batch_samples() const noexcept { return batch_samples_; }

  /// Place in the epoch: batches that the loop has got. For a checkpoint in the middle of an epoch, too.
  [[nodiscard]] Value state_dict() const;
  /// The next loop begins behind the batches that had been got when the state was taken: the rest of that
  /// epoch, in the same order and with the same random numbers. Of an iterable data set they are read and
  /// dropped. A loop that is under way ends with its batch. Warns where the epoch has another order now
  /// (shuffle, a sampler). Throws: ValueError for a state of other samples, another batch size or seed;
  /// nothing has changed then.
  void load_state_dict(const Value& state);

 protected:
  /// `samples`: in an epoch; -1 where nobody knows. Throws: ValueError for options that make no sense, for an
  /// empty data set, and for fewer samples than a batch with drop_last.
  LoaderBase(const DataLoaderOptions& options, std::int64_t samples, bool knows_tensors);
  ~LoaderBase() = default;
  /// A loop that is under way ends with the batch that it has.
  virtual void end_loop() noexcept = 0;

  /// The place at which a loop begins.
  LoaderPosition begin_epoch();
  void count_batch(std::int64_t samples) noexcept {
    ++position_.batch;
    batch_samples_ = samples;
  }
  void end_epoch() noexcept;
  [[nodiscard]] const BatchShare& share() const noexcept { return share_; }

  DataLoaderOptions options_;

 private:
  /// A hash of an epoch's order, of some of its indices, to tell orders apart; 0 for an iterable data set.
  [[nodiscard]] std::uint64_t order_mark(std::uint64_t epoch) const;

  BatchShare share_;
  std::int64_t samples_, batch_samples_ = 0;
  mutable std::optional<std::pair<std::uint64_t, std::uint64_t>> marked_;  ///< the last epoch, and its mark
  LoaderPosition position_;
  bool resumed_ = false;  ///< the next loop goes on at position_
};

/// The batch without its samples.
template <class Batch>
[[nodiscard]] Batch without_samples(Batch batch) {
  BatchTensors<Batch>::visit(batch, [](Tensor& tensor) { drop_samples(tensor); });
  drop_texts(batch);
  return batch;
}

/// f(samples, random) or f(samples); where f takes batches, with collate(samples) for samples.
template <class F, class S>
[[nodiscard]] auto call_collate(const F& f, std::vector<S>&& samples, Random& random) {
  if constexpr (Transforms<F, std::vector<S>&&>)
    return transformed(f, std::move(samples), random);
  else
    return transformed(f, collate(samples), random);
}
template <class F, class S>
concept Collates = Transforms<F, std::vector<S> &&> || (Collatable<S> && Transforms<F, BatchOf<S>&&>);

/// The collate of a loader that is given none.
struct DefaultCollate {
  template <Collatable S>
  [[nodiscard]] BatchOf<S> operator()(std::vector<S>&& samples) const {
    return collate(samples);
  }
};

template <class F, class S>
using CollatedBy =
    decltype(call_collate(std::declval<const F&>(), std::declval<std::vector<S>>(), std::declval<Random&>()));

/// Batches are seeded as samples are, in a sequence of their own.
inline Random batch_random(std::uint64_t seed, std::uint64_t epoch, std::int64_t batch) {
  return {seed ^ 0x6261746368U, epoch, static_cast<std::uint64_t>(batch)};
}

/// The batches of an epoch, of a data set of either kind: of each the samples of this process's share,
/// collated.
template <class S, class F>
class EpochBatches : mezzo::detail::NoCopy {
 public:
  /// A MapStyle data set, and which of its samples the epoch takes.
  struct Mapped {
    Dataset<S> dataset;
    Sampler sampler;
    Order order;
  };
  using Generator = typename IterableDataset<S>::Generator;

  /// `mapped`, or `read`, the samples of an IterableDataset.
  EpochBatches(std::optional<Mapped> mapped, Generator read, F f, const DataLoaderOptions& options,
               LoaderPosition begin, const BatchShare& share)
      : options_(options),
        epoch_(begin.epoch),
        share_(share),
        collate_(std::move(f)),
        mapped_(std::move(mapped)),
        read_(std::move(read)),
        next_(mapped_ ? begin.batch : 0) {
    while (next_ < begin.batch && next()) {
    }
  }

  /// As BatchSource.
  [[nodiscard]] MakeBatch next() {
    const std::int64_t batch = next_++, size = options_.batch_size;
    Deferred read;
    if (!mapped_) read = read_samples(batch);
    const std::int64_t left = mapped_ ? mapped_->order.size() - batch * size : std::ssize(read);
    const std::int64_t count = left < size ? left : size;
    if (count <= 0 || (options_.drop_last && count < size)) return {};
    share_.require_samples(count);
    return [this, batch, count, read = std::move(read)] { return make(batch, count, read); };
  }

 private:
  using Deferred = std::vector<typename IterableDataset<S>::Deferred>;

  [[nodiscard]] Deferred read_samples(std::int64_t batch) const {
    Deferred read;
    try {
      while (std::ssize(read) < options_.batch_size) {
        auto sample = read_();
        if (!sample) break;
        read.push_back(std::move(*sample));
      }
    } catch (...) {
      throw_loader_error(batch * options_.batch_size + std::ssize(read), batch);
    }
    return read;
  }

  [[nodiscard]] HeldBatch make(std::int64_t batch, std::int64_t count, const Deferred& read) const {
    auto [first, last] = share_.of(count);
    const bool drop = first == last;
    if (drop) first = 0, last = 1;                           // one sample, of which only the shapes are kept
    const std::int64_t begin = batch * options_.batch_size;  // its place in the epoch
    const auto index_of = [&](std::int64_t i) { return mapped_ ? mapped_->order[begin + i] : begin + i; };
    std::int64_t index = -1;  // of the sample that is being made
    try {
      if constexpr (std::same_as<F, DefaultCollate>) {
        std::vector<std::int64_t> indices;
        for (std::int64_t i = first; mapped_ && i < last; ++i) indices.push_back(index_of(i));
        auto at_once = mapped_ ? mapped_->dataset.get_batch(indices) : std::nullopt;
        if (at_once) return held(std::move(*at_once), count, drop);
      }
      std::vector<S> samples;
      samples.reserve(static_cast<std::size_t>(last - first));
      for (std::int64_t i = first; i < last; ++i) {
        index = index_of(i);
        // In the order of all processes together.
        const std::int64_t position = mapped_ ? mapped_->sampler.global_position(begin + i) : begin + i;
        Random random(options_.seed, epoch_, static_cast<std::uint64_t>(position));
        samples.push_back(mapped_ ? mapped_->dataset.get(index, random)
                                  : read[static_cast<std::size_t>(i)](random));
        index = -1;
      }
      Random random = batch_random(options_.seed, epoch_, batch);
      return held(call_collate(collate_, std::move(samples), random), count, drop);
    } catch (...) {
      throw_loader_error(index, batch);
    }
  }

  template <class Batch>
  [[nodiscard]] static HeldBatch held(Batch batch, std::int64_t samples, bool drop) {
    if (drop) batch = without_samples(std::move(batch));
    return {std::make_shared<Batch>(std::move(batch)), samples, [](void* of, const TensorVisitor& visitor) {
              BatchTensors<Batch>::visit(*static_cast<Batch*>(of), visitor);
            }};
  }

  const DataLoaderOptions options_;
  const std::uint64_t epoch_;
  const BatchShare share_;
  const F collate_;
  const std::optional<Mapped> mapped_;
  const Generator read_;
  std::int64_t next_;  ///< batch
};

}  // namespace detail

/// The batches of a data set (MapStyle or IterableDataset) as a range. Order and bits are the same for any
/// number of workers. Each loop over it is an epoch with an order of its own; a loop that was left early ends
/// its epoch. One loop at a time.
///
/// `collate`, if given, makes a batch: f(std::vector<Sample>&&) or f(std::vector<Sample>&&, Random&); or
/// changes a collated one: f(Batch&&), f(Batch&&, Random&). It runs on the workers.
///
/// Samples are made without recording and outside of autocast. They should draw from the Random that they are
/// given: the default generator would be shared by all threads.
///
/// Throws, in the loop: LoaderError with the index of the sample and the cause; the epoch ends with it.
/// Source: torch.utils.data.DataLoader.
template <class B = Example>
class DataLoader final : public detail::LoaderBase {
 public:
  using Batch = B;

  template <MapStyle D>
  explicit DataLoader(D dataset, const DataLoaderOptions& options = {})
      : DataLoader(std::move(dataset), options, detail::DefaultCollate()) {}
  template <MapStyle D>
  explicit DataLoader(std::shared_ptr<D> dataset, const DataLoaderOptions& options = {})
      : DataLoader(Dataset(std::move(dataset)), options) {}
  template <class S>
  explicit DataLoader(IterableDataset<S> dataset, const DataLoaderOptions& options = {})
      : DataLoader(std::move(dataset), options, detail::DefaultCollate()) {}

  template <MapStyle D, detail::Collates<SampleOf<D>> F>
  DataLoader(D dataset, const DataLoaderOptions& options, F collate)
      : DataLoader(options, Dataset<SampleOf<D>>(std::move(dataset)), std::move(collate)) {}
  template <class S, detail::Collates<S> F>
  DataLoader(IterableDataset<S> dataset, const DataLoaderOptions& options, F collate)
      : LoaderBase(options, -1, detail::BatchTensors<B>::kKnown),
        open_([dataset = std::move(dataset), collate = std::move(collate), options](
                  detail::LoaderPosition at, const detail::BatchShare& share) {
          return source(std::make_shared<detail::EpochBatches<S, F>>(std::nullopt, dataset.start(at.epoch),
                                                                     collate, options, at, share));
        }) {}

  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = B;
    using difference_type = std::ptrdiff_t;
    using pointer = B*;
    using reference = B&;

    iterator() = default;
    [[nodiscard]] B& operator*() const { return *operator->(); }
    [[nodiscard]] B* operator->() const { return static_cast<B*>(loader_->held_.batch.get()); }
    iterator& operator++() {
      if (!loader_->advance()) loader_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.loader_ == b.loader_; }

   private:
    friend class DataLoader;
    explicit iterator(DataLoader* loader) : loader_(loader) {}
    DataLoader* loader_ = nullptr;  ///< none: the end
  };

  /// Begins an epoch: the next epoch, or the rest of the epoch that load_state_dict has named.
  [[nodiscard]] iterator begin() {
    close();
    queue_ = std::make_unique<detail::BatchQueue>(open_(begin_epoch(), share()),
                                                  detail::QueueOptions{.workers = options_.num_workers,
                                                                       .prefetch = options_.prefetch_factor,
                                                                       .device = options_.device});
    return advance() ? iterator(this) : iterator();
  }
  [[nodiscard]] iterator end() { return {}; }

 private:
  using Open =
      mezzo::detail::Function<detail::BatchSource(detail::LoaderPosition, const detail::BatchShare&)>;

  template <class S, class F>
  DataLoader(const DataLoaderOptions& options, Dataset<S> dataset, F collate)
      : LoaderBase(options, detail::sampler_of(options, dataset.size()).size(),
                   detail::BatchTensors<B>::kKnown),
        open_([dataset, collate = std::move(collate), options](detail::LoaderPosition at,
                                                               const detail::BatchShare& share) {
          using Batches = detail::EpochBatches<S, F>;
          const Sampler sampler = detail::sampler_of(options, dataset.size());
          return source(
              std::make_shared<Batches>(typename Batches::Mapped{dataset, sampler, sampler.order(at.epoch)},
                                        nullptr, collate, options, at, share));
        }) {}

  template <class Batches>
  [[nodiscard]] static detail::BatchSource source(std::shared_ptr<Batches> batches) {
    return [batches = std::move(batches)] { return batches->next(); };
  }

  /// On to the next batch. False at the end of the epoch.
  bool advance() {
    if (queue_ == nullptr) {  // another place was set
      close();
      return false;
    }
    try {
      held_ = queue_->next();
    } catch (...) {
      close();
      throw;
    }
    if (held_.batch == nullptr) {
      close();
      end_epoch();
      return false;
    }
    count_batch(held_.samples);
    return true;
  }
  void end_loop() noexcept override { queue_.reset(); }
  void close() noexcept {
    queue_.reset();
    held_ = {};
  }

  Open open_;
  std::unique_ptr<detail::BatchQueue> queue_;
  detail::HeldBatch held_;
};

template <MapStyle D>
DataLoader(D, const DataLoaderOptions& = {}) -> DataLoader<BatchOf<SampleOf<D>>>;
template <MapStyle D>
DataLoader(std::shared_ptr<D>, const DataLoaderOptions& = {}) -> DataLoader<BatchOf<SampleOf<D>>>;
template <class S>
DataLoader(IterableDataset<S>, const DataLoaderOptions& = {}) -> DataLoader<BatchOf<S>>;
template <MapStyle D, class F>
DataLoader(D, const DataLoaderOptions&, F) -> DataLoader<detail::CollatedBy<F, SampleOf<D>>>;
template <class S, class F>
DataLoader(IterableDataset<S>, const DataLoaderOptions&, F) -> DataLoader<detail::CollatedBy<F, S>>;

}  // namespace mezzo::data
