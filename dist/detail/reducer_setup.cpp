// How a Reducer begins: models compared, values broadcast, buckets laid out; and its shards.
#include "mezzo/dist/detail/reducer.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

#include "mezzo/autograd/checkpoint.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/dist/collectives.h"
#include "mezzo/dist/detail/group_state.h"
#include "mezzo/dist/sync_batch_norm.h"

namespace mezzo::dist {

namespace {

bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

void require_options(const DataParallelOptions& options, int ranks) {
  const auto refuse = [](std::string_view expected, const std::string& got, std::string_view fix) {
    throw ValueError("DataParallel", expected, got, fix);
  };
  if (options.reduction != ReduceOp::mean && options.reduction != ReduceOp::sum)
    refuse("reduction mean or sum", std::string(to_string(options.reduction)), "use one of these");
  if (options.first_bucket_bytes < 1 || options.bucket_bytes < 1) {
    refuse("buckets of at least 1 byte",
           std::to_string(std::min(options.first_bucket_bytes, options.bucket_bytes)),
           "leave bucket_bytes as it is");
  }
  if (options.reduce_dtype != DType::f32 && !is_16bit(options.reduce_dtype)) {
    refuse("reduce_dtype f32, f16 or bf16", std::string(mezzo::to_string(options.reduce_dtype)),
           "use one of these");
  }
  const int parts = options.virtual_parts;
  if (parts == 0) return;
  if (!is_power_of_two(parts) || !is_power_of_two(ranks) || parts < ranks) {
    refuse("virtual_parts and ranks that are powers of two, at least one part for each rank",
           std::to_string(parts) + " parts and " + std::to_string(ranks) + " ranks",
           "start 1, 2, 4, ... processes, and cut the batch into as many parts or more");
  }
  if (options.reduce_dtype != DType::f32) {
    refuse("reduce_dtype f32 in deterministic mode", std::string(mezzo::to_string(options.reduce_dtype)),
           "leave out reduce_dtype or virtual_parts");
  }
}

std::string described(const DataParallelOptions& options) {
  std::ostringstream text;
  text << "options: reduction " << to_string(options.reduction) << ", buckets of "
       << options.first_bucket_bytes << " and " << options.bucket_bytes << " bytes, find_unused_parameters "
       << options.find_unused_parameters << ", broadcast_buffers " << options.broadcast_buffers
       << ", reduce_dtype " << mezzo::to_string(options.reduce_dtype) << ", virtual_parts "
       << options.virtual_parts << '\n';
  return text.str();
}

std::string described(std::string_view kind, const nn::NamedTensors& tensors) {
  std::ostringstream text;
  for (const auto& [name, tensor] : tensors) {
    text << kind << ' ' << name << ' ' << mezzo::to_string(tensor.shape()) << ' '
         << mezzo::to_string(tensor.dtype()) << (tensor.requires_grad() ? " that requires grad\n" : "\n");
  }
  return text.str();
}

/// FNV-1a, 64 bits.
std::string hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return std::to_string(hash);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<Tensor> tensors_of(const nn::NamedTensors& named) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

}  // namespace

void Reducer::compare_models() const {
  if (group_.size() == 1) return;
  const std::string text = described(options_) + described("parameter", model_.named_parameters()) +
                           described("buffer", model_.named_buffers());
  const std::vector<std::string> hashes = all_gather_text(hash_of(text), group_);
  if (std::all_of(hashes.begin(), hashes.end(), [&](const auto& hash) { return hash == hashes[0]; })) return;
  const std::vector<std::string> texts = all_gather_text(text, group_);
  const std::vector<std::string> first = lines_of(texts[0]);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    const std::vector<std::string> other = lines_of(texts[r]);
    for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const std::string mine = i < first.size() ? first[i] : "nothing more";
      const std::string its = i < other.size() ? other[i] : "nothing more";
      if (mine == its) continue;
      throw ValueError("DataParallel", "one model and the same options on all ranks",
                       mine + " on rank 0 and " + its + " on rank " + std::to_string(r),
                       "make them by the same code on every rank");
    }
  }
}

void Reducer::make_buckets(std::span<const std::size_t> order) {
  buckets_.clear();
  for (BucketPlan& plan : plan_buckets(parameters_, order, group_.size(), options_)) {
    for (std::size_t i = 0; i < plan.places.size(); ++i) {
      Leaf& leaf = leaves_[plan.places[i].parameter];
      leaf.bucket = buckets_.size();
      leaf.place = i;
    }
    const std::string place = "gradients, bucket " + std::to_string(buckets_.size());
    buckets_.emplace_back(std::move(plan), group_, device_, options_, place);
  }
}

void Reducer::rebuild_buckets() {
  is_layout_fixed_ = true;
  std::ostringstream text;
  for (const std::size_t i : ready_) text << i << ' ';
  std::istringstream of_rank_0(broadcast_text(text.str(), 0, group_));
  std::vector<std::size_t> order;
  std::vector<bool> is_known(leaves_.size());
  for (std::size_t i = 0; of_rank_0 >> i;) {
    order.push_back(i);
    is_known[i] = true;
  }
  for (std::size_t i = leaves_.size(); i-- > 0;)
    if (!is_known[i]) order.push_back(i);
  make_buckets(order);
}

std::vector<ShardRange> Reducer::shards_of(int rank) const {
  std::vector<ShardRange> ranges;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const BucketPlan& plan = buckets_[b].plan();
    const std::int64_t length = plan.numel / group_.size();
    const std::int64_t from = length * rank, to = from + length;
    for (const BucketPlace& place : plan.places) {
      const std::int64_t numel = parameter(place.parameter).numel();
      const std::int64_t begin = std::max<std::int64_t>(from - place.offset, 0);
      const std::int64_t end = std::min(to - place.offset, numel);
      if (begin < end) ranges.push_back({place.parameter, begin, end, b, place.offset + begin});
    }
  }
  return ranges;
}

Reducer::Reducer(nn::Module& model, const DataParallelOptions& options)
    : model_(model), options_(options), group_(options.group ? *options.group : world()) {
  require_options(options_, group_.size());
  for (const auto& [name, tensor] : model_.named_parameters())
    (tensor.requires_grad() ? parameters_ : frozen_).emplace_back(name, tensor);
  if (parameters_.empty()) {
    throw ValueError("DataParallel", "a model with parameters that require grad", "none",
                     "use the model without it");
  }
  if (has_parts() && has_sync_batchnorm(model_)) {
    throw ValueError("DataParallel", "no SyncBatchNorm in deterministic mode", "one",
                     "use BatchNorm: each part has its own statistics, whatever rank it is on");
  }
  device_ = parameter(0).device();
  for (const auto& [name, tensor] : parameters_) {
    dtypes_.push_back(tensor.dtype());
    if (tensor.device() == device_) continue;
    throw DeviceError("DataParallel", "all parameters on " + mezzo::to_string(device_),
                      name + " on " + mezzo::to_string(tensor.device()), "move the model with to(device)");
  }
  compare_models();
  leaves_.resize(parameters_.size());
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  make_buckets(order);
  broadcast_values(tensors_of(model_.named_parameters()), group_);
  std::vector<Tensor> tensors = tensors_of(model_.named_buffers());
  broadcast_values(tensors, group_);
  const bool are_followed = has_parts() || (options_.broadcast_buffers && group_.size() > 1);
  if (!tensors.empty() && are_followed)
    buffers_ = std::make_unique<ModelBuffers>(std::move(tensors), group_, options_.virtual_parts);
}

void Reducer::attach() {
  try {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      autograd::set_gradient_receiver(parameter(i), Ref<autograd::GradientReceiver>(this), i);
      leaves_[i].is_attached = true;
    }
  } catch (...) {
    detach();
    throw;
  }
  if (!buffers_) return;
  forward_hook_ = model_.register_forward_pre_hook(
      [this](nn::Module& /*module*/, const Tensor& /*input*/) { begin_forward(); });
}

void Reducer::detach() noexcept {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (std::exchange(leaves_[i].is_attached, false)) autograd::clear_gradient_receiver(parameter(i));
  }
  if (forward_hook_) model_.remove_hook(*forward_hook_);
  forward_hook_.reset();
}

void Reducer::begin_forward() {
  if (!buffers_) return;
  const bool is_for_backward = model_.is_training() && grad_enabled() && !autograd::is_recomputing();
  if (is_for_backward && no_sync_depth_ == 0) buffers_->before_forward();
}

std::vector<ShardRange> Reducer::shards(int rank) {
  if (rank < 0 || rank >= group().size()) {
    throw ValueError("Reducer.shards", "a rank in [0, " + std::to_string(group().size()) + ")",
                     std::to_string(rank), "name a rank of the group");
  }
  is_layout_fixed_ = true;
  return shards_of(rank);
}

void Reducer::shard(std::vector<Tensor> leaves) {
  if (!shard_leaves_.empty() || is_sharded_) {
    throw StateError("ShardedOptimizer", "a DataParallel without another ShardedOptimizer", "one that has it",
                     "make one ShardedOptimizer per model");
  }
  std::vector<ShardRange> ranges = shards(group_.rank());
  for (const auto& [name, tensor] : parameters_) {
    if (tensor.is_contiguous()) continue;
    throw ValueError("ShardedOptimizer", "row-major parameters, which can be cut",
                     name + " with strides " + to_string(tensor.strides()),
                     "use contiguous() where it is made");
  }
  bool fits = ranges.size() == leaves.size();
  for (std::size_t i = 0; fits && i < ranges.size(); ++i)
    fits = leaves[i].numel() == ranges[i].end - ranges[i].begin &&
           leaves[i].dtype() == dtypes_[ranges[i].parameter] && leaves[i].device() == device_;
  if (!fits) {
    throw ValueError(
        "Reducer.shard",
        "one leaf of its size and dtype for each of " + std::to_string(ranges.size()) + " shards",
        std::to_string(leaves.size()) + " leaves", "make them by shards(rank)");
  }
  is_sharded_ = true;
  shard_ranges_ = std::move(ranges);
  shard_leaves_ = std::move(leaves);
  for (Bucket& bucket : buckets_) bucket.shard();
}

void Reducer::gather_parameters() {
  const int ranks = group_.size(), own = group_.rank();
  if (ranks == 1) return;
  const NoGrad no_grad;
  const auto run = [](const Tensor& of, std::int64_t from, std::int64_t begin, std::int64_t end) {
    return alias(of, {end - begin}, {1}, from + begin, false);
  };
  // [bucket][rank]
  std::vector<std::vector<std::vector<ShardRange>>> ranges(buckets_.size());
  for (auto& of_bucket : ranges) of_bucket.resize(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r)
    for (const ShardRange& range : shards_of(r))
      ranges[range.bucket][static_cast<std::size_t>(r)].push_back(range);
  const auto value = [&](const ShardRange& range) {
    const Tensor& whole = parameter(range.parameter);
    return run(whole, whole.impl().offset, range.begin, range.end);
  };
  std::vector<Tensor> wholes;
  std::vector<Work> works;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const BucketPlan& plan = buckets_[b].plan();
    const std::int64_t numel = plan.numel / ranks;
    const Tensor part = zeros({numel}, {.dtype = plan.dtype, .device = device_});
    for (const ShardRange& range : ranges[b][static_cast<std::size_t>(own)]) {
      const std::int64_t at = range.offset - own * numel;
      run(part, 0, at, at + range.end - range.begin).copy_(value(range));
    }
    wholes.push_back(empty({plan.numel}, options_of(part)));
    works.push_back(all_gather(wholes.back(), part, {.group = group_, .async = true}));
  }
  for (std::size_t b = 0; b < works.size(); ++b) {  // the next ones travel meanwhile
    works[b].wait();
    for (int r = 0; r < ranks; ++r) {
      if (r == own) continue;
      for (const ShardRange& range : ranges[b][static_cast<std::size_t>(r)])
        value(range).copy_(run(wholes[b], 0, range.offset, range.offset + range.end - range.begin));
    }
  }
}

}  // namespace mezzo::dist
