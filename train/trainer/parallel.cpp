// A trainer's group of processes: shares of batches, random numbers of parts, and what ranks agree on.
#include "mezzo/train/trainer/parallel.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/dist/detail/group_state.h"
#include "mezzo/dist/detail/reducer.h"
#include "mezzo/dist/detail/tree_sum.h"
#include "mezzo/dist/init.h"
#include "mezzo/dist/sharded_optimizer.h"
#include "mezzo/dist/sync_batch_norm.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/clip.h"
#include "mezzo/train/trainer/model_call.h"

namespace mezzo::train {

namespace {

constexpr const char* kTrainer = "Trainer";
/// Blocks of random numbers between the parts of a step. None draws so many.
constexpr std::uint64_t kPartBlocks = std::uint64_t{1} << 32;

bool has_own_group(const Parallel& parallel) {
  return parallel.made() != nullptr || (parallel.options() && parallel.options()->group);
}

/// The values that must be the same on all ranks before an epoch.
std::string description(detail::LoaderFace& loader) {
  auto* const base = loader.base();
  if (base == nullptr) {
    const auto size = loader.size();
    return size ? "a loader of " + std::to_string(*size) + " batches" : "a loader of unknown length";
  }
  std::string text = "a DataLoader at " + base->state_dict().to_string();
  if (const data::Sampler& sampler = base->options().sampler) {
    text += ", samples";
    const data::Order order = sampler.order(base->epoch());
    for (std::int64_t i = 0; i < std::min<std::int64_t>(order.size(), 16); ++i)
      text += " " + std::to_string(order[i]);
  }
  return text;
}

}  // namespace

TrainerOptions on_own_device(TrainerOptions options) {
  const Parallel& parallel = options.parallel;
  if (!parallel.defined() || has_own_group(parallel)) return options;
  dist::ensure_initialized();
  const Device device = options.device.value_or(detail::device_of(*options.model.module()));
  if (device.is_cuda() && device.index == 0 && dist::local_world_size() > 1)
    options.device = Device::cuda(dist::local_rank());
  return options;
}

Tensor clip_gradients(const optim::Optimizer* optimizer, TensorList parameters, double max_norm,
                      double norm_type) {
  if (const auto* const sharded = dynamic_cast<const dist::Sharded*>(optimizer))
    return sharded->clip_grad_norm_(max_norm, norm_type);
  return optim::clip_grad_norm_(parameters, max_norm, norm_type);
}

ParallelRun::ParallelRun(const Parallel& parallel) : is_alone_(false), made_(parallel.made()) {
  if (made_ != nullptr) {
    options_ = made_->reducer().options();
    group_ = made_->group();
  } else {
    options_ = *parallel.options();
    options_.reduction = dist::ReduceOp::sum;
    group_ = options_.group ? *options_.group : dist::world();
    options_.group = group_;
  }
  all_parts_ = options_.virtual_parts;
}

void ParallelRun::share_model(nn::Module& model) {
  if (is_alone()) return;
  has_sync_norms_ = dist::has_sync_batchnorm(model);
  if (made_ != nullptr) return;
  own_ = std::make_unique<dist::DataParallel>(model, options_);
  made_ = own_.get();
}

double ParallelRun::gradient_factor() const noexcept {
  if (options_.reduction != dist::ReduceOp::mean) return 1;
  return static_cast<double>(is_deterministic() ? all_parts_ : size());
}

Tensor ParallelRun::loss_of_nothing() const {
  const NoInputHook no_autocast;
  Tensor total;
  for (const auto& [name, parameter] : made_->reducer().parameters()) {
    if (!parameter.requires_grad()) continue;
    // The sum of none of its elements.
    const Tensor nothing = mezzo::sum(narrow(parameter.reshape({-1}), 0, 0, 0)).to(DType::f32);
    total = total.defined() ? total + nothing : nothing;
  }
  return total;
}

void ParallelRun::begin(detail::LoaderFace& loader) {
  if (is_alone()) return loader.begin();
  const auto texts = dist::all_gather_text(description(loader), group_);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    throw ValueError(kTrainer, "the same loader on all ranks, of which each takes its share",
                     "on rank 0 " + texts[0] + ", on rank " + std::to_string(r) + " " + texts[r],
                     "give all ranks the whole data, without a DistributedSampler");
  }
  if (auto* const base = loader.base()) {
    const detail::AtEnd restore(
        [base, rank = base->share_rank(), size = base->share_size()] { base->set_share(rank, size); });
    base->set_share(group_.rank(), group_.size());
    loader.begin();
  } else {
    loader.begin();
  }
  is_first_batch_ = true;
}

namespace {

/// Tells a batch from others, by its first numbers, to all ranks, which run one build; below 2^53.
double mark_of(const AnyBatch& batch) {
  const NoGrad no_grad;
  std::uint64_t mark = 0;
  batch.visit([&](const Tensor& tensor) {
    if (!tensor.defined()) return;
    constexpr std::int64_t kMost = 4096;
    const Tensor flat = tensor.detach().reshape({-1});
    const Tensor head = narrow(flat, 0, 0, std::min(flat.numel(), kMost)).to(Device::cpu()).contiguous();
    const std::string_view bytes(static_cast<const char*>(head.impl().data()),
                                 static_cast<std::size_t>(head.numel() * size_of(head.dtype())));
    mark = 31 * mark + std::hash<std::string_view>()(bytes);
  });
  return static_cast<double>(mark >> 12);
}

}  // namespace

ParallelRun::Share ParallelRun::next(detail::LoaderFace& loader) {
  const Phase phase("loader");
  AnyBatch batch = loader.next();
  if (is_alone()) return {std::move(batch), {}};
  auto* const base = loader.base();
  std::int64_t whole = -1;
  if (batch.defined()) whole = base != nullptr ? base->batch_samples() : batch.find_samples().value_or(1);
  if (size() > 1 && (base == nullptr || !loader.size())) {
    const double number = static_cast<double>(whole);
    const bool compares = std::exchange(is_first_batch_, false) && base == nullptr && batch.defined();
    const double mark = compares ? mark_of(batch) : 0;
    const Tensor ends =
        tensor({number, -number, mark, -mark}, {.dtype = DType::f64, .device = number_device()});
    dist::all_reduce(ends, dist::ReduceOp::max, {.group = group_});
    const std::vector<double> most = ends.to_vector<double>();
    const double largest = most[0], least = -most[1];
    if (largest == least && most[2] != -most[3]) {
      throw ValueError(kTrainer, "the same batches on all ranks, of which each takes its share",
                       "batches of other data on each", "give all ranks the whole data, in one order");
    }
    if (largest != least) {
      const auto text = [](double n) { return n < 0 ? std::string("none") : number_text(n) + " samples"; };
      throw ValueError(kTrainer, "batches of the same size on all ranks",
                       text(least) + " and " + text(largest), "let all ranks load the whole data");
    }
  }
  if (!batch.defined()) return {};
  if (base == nullptr && size() > 1) {
    const std::int64_t begin = whole * group_.rank() / size(), end = whole * (group_.rank() + 1) / size();
    batch = batch.narrow(begin, end - begin);
  }
  return {std::move(batch), whole};
}

std::pair<std::int64_t, std::int64_t> ParallelRun::own_parts() const noexcept {
  const std::int64_t each = is_deterministic() ? all_parts_ / size() : 1;
  return {group_.rank() * each, (group_.rank() + 1) * each};
}

std::pair<std::int64_t, std::int64_t> ParallelRun::range_of(std::int64_t part, std::int64_t whole) const {
  const std::int64_t all = is_deterministic() ? all_parts_ : size();
  const std::int64_t begin = whole * part / all, end = whole * (part + 1) / all;
  return {begin - whole * group_.rank() / size(), end - begin};
}

std::vector<std::pair<std::size_t, AnyBatch>> ParallelRun::parts_of(const Share& share) const {
  if (is_alone()) return {{0, share.batch}};
  const auto [first, last] = own_parts();
  std::vector<std::pair<std::size_t, AnyBatch>> parts;
  for (std::int64_t part = first; part < last; ++part) {
    const auto [begin, length] = range_of(part, *share.whole);
    if (length == 0) continue;
    parts.emplace_back(static_cast<std::size_t>(part - first),
                       last - first == 1 ? share.batch : share.batch.narrow(begin, length));
  }
  return parts;
}

bool ParallelRun::has_empty_part(const std::vector<std::int64_t>& wholes) const {
  return std::any_of(wholes.begin(), wholes.end(), [&](std::int64_t whole) { return whole < all_parts_; });
}

void ParallelRun::require_equal_forwards(const std::vector<std::int64_t>& wholes,
                                         std::optional<std::int64_t> microbatch) const {
  if (!has_sync_norms_ || size() == 1 || is_deterministic()) return;
  std::vector<std::int64_t> forwards(static_cast<std::size_t>(size()));
  for (std::int64_t r = 0; r < size(); ++r) {
    for (const std::int64_t whole : wholes) {
      const std::int64_t own = whole * (r + 1) / size() - whole * r / size();
      const std::int64_t most = microbatch.value_or(std::max<std::int64_t>(own, 1));
      forwards[static_cast<std::size_t>(r)] += (own + most - 1) / most;
    }
  }
  const auto [least, largest] = std::minmax_element(forwards.begin(), forwards.end());
  if (*least == *largest) return;
  throw ValueError(kTrainer, "as many forwards on each rank, for SyncBatchNorm",
                   std::to_string(*least) + " and " + std::to_string(*largest),
                   "use drop_last, and a microbatch that divides each rank's share");
}

void ParallelRun::share_counters(const nn::Module& model) const {
  const NoGrad no_grad;
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (!is_floating(buffer.dtype())) dist::broadcast(buffer, size() - 1, {.group = group_});
  }
}

void ParallelRun::share_buffers(const nn::Module& model) const {
  if (size() == 1 || is_deterministic() || !options_.broadcast_buffers) return;
  const NoGrad no_grad;
  for (const auto& [name, buffer] : model.named_buffers()) dist::broadcast(buffer, 0, {.group = group_});
}

// --- random numbers

ParallelRun::PartDraws::PartDraws(const ParallelRun& run, std::int64_t part) : scope_(*this) {
  const std::int64_t all = run.is_deterministic() ? run.all_parts_ : run.size();
  begin_ = static_cast<std::uint64_t>(run.evaluations_ * all + part + 1) * kPartBlocks;
}

RandomRange ParallelRun::PartDraws::record(const Ref<mezzo::detail::Sequence>& sequence, std::uint64_t blocks,
                                           Device /*device*/) {
  GeneratorState first = sequence->state();
  std::uint64_t& used = used_[sequence.get()];
  first.offset += begin_ + used;
  used += blocks;
  return {first};
}

void ParallelRun::PartDraws::set_state(mezzo::detail::Sequence& sequence, const GeneratorState& state) {
  used_[&sequence] = 0;
  sequence.set_state(state);
}

// --- what ranks agree on

Device ParallelRun::number_device() const {
  return size() == 1 || group_.state().host() ? Device::cpu() : Device::cuda(dist::local_rank());
}

Tensor ParallelRun::sum_of_losses(const std::vector<Tensor>& losses, Device device) {
  for (const Tensor& loss : losses) {
    if (loss.defined()) loss_dtype_ = loss.dtype();
  }
  return sum_of_parts(losses, device).to(loss_dtype_);
}

Tensor ParallelRun::sum_of_parts(const std::vector<Tensor>& numbers, Device device) const {
  if (is_alone()) return numbers.front();
  const PlainOps plain;
  // Numbers on the host travel where small numbers do.
  const Device way = device.is_cpu() ? number_device() : device;
  std::vector<Tensor> wide;
  for (const Tensor& number : numbers) {
    wide.push_back(number.defined() ? number.detach().reshape({}).to(DType::f64).to(way)
                                    : zeros({}, {.dtype = DType::f64, .device = way}));
  }
  const Tensor own = stack(wide);
  if (!is_deterministic()) {
    dist::all_reduce(own, dist::ReduceOp::sum, {.group = group_});
    return own.select(0, 0).to(device);
  }
  const Tensor all = empty({all_parts_}, {.dtype = DType::f64, .device = way});
  dist::all_gather(all, own, {.group = group_});
  return dist::tree_sum(all.view({-1, 1})).select(0, 0).to(device);
}

std::int64_t ParallelRun::reduced(std::int64_t number, dist::ReduceOp op) const {
  if (size() == 1) return number;
  const Tensor all = full({1}, static_cast<double>(number), {.dtype = DType::i64}).to(number_device());
  dist::all_reduce(all, op, {.group = group_});
  return static_cast<std::int64_t>(all.item());
}

double ParallelRun::of_first(double number) const {
  if (size() == 1) return number;
  const Tensor all = full({1}, number, {.dtype = DType::f64, .device = number_device()});
  dist::broadcast(all, 0, {.group = group_});
  return all.item();
}

std::string ParallelRun::of_first(const std::string& text) const {
  return is_alone() ? text : dist::broadcast_text(text, 0, group_);
}

bool ParallelRun::add_up(const Metric& metric, const std::vector<std::vector<Tensor>>& parts) const {
  const PlainOps plain;
  const std::vector<Tensor>& own = metric.state();
  if (reduced(own.empty() ? 0 : 1, dist::ReduceOp::max) == 0) return true;
  const Device device =
      own.empty() ? made_->reducer().parameters().front().second.device() : own.front().device();
  const std::vector<Tensor> nothing = metric.empty_state(device);
  const auto [first, last] = own_parts();
  for (std::size_t s = 0; s < nothing.size(); ++s) {
    std::vector<Tensor> sums;
    for (std::size_t i = 0; i < static_cast<std::size_t>(last - first); ++i)
      sums.push_back(i < parts.size() && s < parts[i].size() ? parts[i][s] : nothing[s]);
    const std::int64_t n = nothing[s].numel();
    const Tensor local = stack(sums).reshape({static_cast<std::int64_t>(sums.size()), n});
    Tensor total = local;
    if (!is_deterministic() || !is_floating(local.dtype())) {
      total = mezzo::sum(local, {0}).to(local.dtype());
      dist::all_reduce(total, dist::ReduceOp::sum, {.group = group_});
    } else {
      const Tensor all = empty({all_parts_, n}, {.dtype = local.dtype(), .device = device});
      dist::all_gather(all, local, {.group = group_});
      total = dist::tree_sum(all);
    }
    if (!own.empty()) Tensor(own[s]).copy_(total.reshape(own[s].shape()));
  }
  return !own.empty();
}

std::vector<double> ParallelRun::of_first_with(bool flag, const std::vector<double>& numbers) const {
  if (size() == 1 || numbers.empty()) return numbers;
  std::vector<double> own{flag ? 1.0 : 0.0};
  own.insert(own.end(), numbers.begin(), numbers.end());
  const auto n = static_cast<std::int64_t>(own.size());
  const Tensor all = empty({size() * n}, {.dtype = DType::f64, .device = number_device()});
  dist::all_gather(all, tensor(own, {.dtype = DType::f64, .device = number_device()}), {.group = group_});
  const Tensor on_host = all.to(Device::cpu());
  const auto* const values = static_cast<const double*>(on_host.impl().data());
  int rank = 0;
  while (rank + 1 < size() && values[rank * n] == 0) ++rank;
  if (values[rank * n] == 0) rank = 0;
  return {values + rank * n + 1, values + (rank + 1) * n};
}

void ParallelRun::settle(const std::exception_ptr& error) const {
  std::string text;
  if (error != nullptr) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& thrown) {
      text = thrown.what();
    } catch (...) {
      text = "an exception of another type";
    }
    if (text.empty()) text = "an exception without text";
  }
  const auto texts = dist::all_gather_text(text, group_);
  if (error != nullptr) std::rethrow_exception(error);
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (texts[r].empty()) continue;
    throw dist::CommunicationError(kTrainer, "rank " + std::to_string(r) + " to go on", texts[r],
                                   "look at that rank");
  }
}

}  // namespace mezzo::train
