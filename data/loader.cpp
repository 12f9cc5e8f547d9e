// Options, place and state of a loader.
#include "mezzo/data/loader.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include "mezzo/core/warning.h"

namespace mezzo::data::detail {

namespace {

constexpr const char* kOp = "DataLoader";

void require(bool good, const std::string& expected, const std::string& got, const char* fix) {
  if (!good) throw ValueError(kOp, expected, got, fix);
}

}  // namespace

Sampler sampler_of(const DataLoaderOptions& options, std::int64_t size) {
  if (options.sampler) return options.sampler;
  return options.shuffle ? RandomSampler(size, {.seed = options.seed}) : SequentialSampler(size);
}

void BatchShare::require_samples(std::int64_t samples) const {
  if (can_be_empty || samples >= size) return;
  throw ValueError(kOp, "at least " + std::to_string(size) + " samples in each batch, one per rank",
                   std::to_string(samples),
                   "use drop_last, or batches of tensors, of which a share may be empty");
}

void LoaderBase::set_share(std::int64_t rank, std::int64_t size) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw ValueError("DataLoader.set_share", "a rank in [0, size)",
                     "rank " + std::to_string(rank) + " of " + std::to_string(size), "pass those of a group");
  }
  share_.rank = rank;
  share_.size = size;
}

LoaderBase::LoaderBase(const DataLoaderOptions& options, std::int64_t samples, bool knows_tensors)
    : options_(options), share_{.can_be_empty = knows_tensors}, samples_(samples) {
  require(options.batch_size >= 1, "a batch_size of at least 1", std::to_string(options.batch_size), "");
  require(options.num_workers >= 0 && options.num_workers <= 1024, "num_workers from 0 to 1024",
          std::to_string(options.num_workers), "as many as processors are free is a good number");
  require(options.prefetch_factor >= 1, "a prefetch_factor of at least 1",
          std::to_string(options.prefetch_factor), "");
  require(!options.shuffle || !options.sampler, "shuffle or a sampler", "both",
          "a sampler decides on the order: leave shuffle out");
  require(samples >= 0 || (!options.shuffle && !options.sampler), "no shuffle and no sampler",
          "one for an iterable data set", "its samples come as they come: shuffle them in the data set");
  require(samples != 0, "samples", "an empty data set", "look at where it reads them");
  require(!options.drop_last || samples < 0 || samples >= options.batch_size,
          "at least " + std::to_string(options.batch_size) + " samples, a batch, with drop_last",
          std::to_string(samples), "make batch_size smaller");
  require(knows_tensors || options.device.is_cpu(),
          "batches of a type that the loader knows for another device", "a type of the program's own",
          "leave .device out, and move the tensors in the loop");
}

std::int64_t LoaderBase::size() const {
  require(samples_ >= 0, "a data set with a size", "an iterable one", "count the batches of an epoch");
  return *find_size();
}

std::optional<std::int64_t> LoaderBase::find_size() const {
  if (samples_ < 0) return std::nullopt;
  return options_.drop_last ? samples_ / options_.batch_size
                            : (samples_ + options_.batch_size - 1) / options_.batch_size;
}

void LoaderBase::set_epoch(std::uint64_t epoch) {
  end_loop();
  position_ = {epoch, 0};
  resumed_ = true;
}

LoaderPosition LoaderBase::begin_epoch() {
  // A loop that was left early has begun this one.
  if (!resumed_ && position_.batch > 0) end_epoch();
  resumed_ = false;
  batch_samples_ = 0;
  return position_;
}

void LoaderBase::end_epoch() noexcept { position_ = {position_.epoch + 1, 0}; }

std::uint64_t LoaderBase::order_mark(std::uint64_t epoch) const {
  if (samples_ < 0) return 0;
  if (marked_ && marked_->first == epoch) return marked_->second;
  const Order order = sampler_of(options_, samples_).order(epoch);
  constexpr std::int64_t kMarks = 16;
  const std::int64_t count = std::min(order.size(), kMarks);
  std::uint64_t value = 0;
  for (std::int64_t i = 0; i < count; ++i)
    value = (value ^ static_cast<std::uint64_t>(order[i * order.size() / count])) * 0x9e3779b97f4a7c15ULL;
  marked_ = {epoch, value};
  return value;
}

Value LoaderBase::state_dict() const {
  return Value::Map{{"epoch", std::to_string(position_.epoch)},
                    {"batch", position_.batch},
                    {"samples", samples_},
                    {"batch_size", options_.batch_size},
                    {"seed", std::to_string(options_.seed)},
                    {"order", std::to_string(order_mark(position_.epoch))}};
}

void LoaderBase::load_state_dict(const Value& state) {
  const Value own = state_dict();
  for (const char* key : {"samples", "batch_size", "seed"}) {
    if (state.at(key) == own.at(key)) continue;
    throw ValueError("DataLoader.load_state_dict",
                     std::string("the state of a loader with ") + key + " " + own.at(key).to_string(),
                     state.at(key).to_string(), "make the loader as it was, or leave its state out");
  }
  LoaderPosition position;
  const std::string& epoch = state.at("epoch").as_string();
  position.batch = saved_count("DataLoader.load_state_dict", state, "batch");
  const auto [end, error] = std::from_chars(epoch.data(), epoch.data() + epoch.size(), position.epoch);
  if (error != std::errc() || end != epoch.data() + epoch.size() ||
      (samples_ >= 0 && position.batch > size())) {
    throw ValueError("DataLoader.load_state_dict", "an epoch, and a batch that it has",
                     "epoch " + quote(epoch) + ", batch " + std::to_string(position.batch), "check the file");
  }
  if (state.contains("order") &&
      state.at("order").as_string() != std::to_string(order_mark(position.epoch))) {
    warn_once(
        "loader_order",
        "DataLoader.load_state_dict: expected the order of samples that the state was taken in, got another "
        "one, so this epoch may take some twice and others not; make the loader as it was");
  }
  end_loop();
  position_ = position;
  resumed_ = true;
}

}  // namespace mezzo::data::detail
