// Buckets: which parameters go into which, how parts of a step are added up, and the calls of a transport
// that reduce them.
#include "mezzo/dist/detail/bucket.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/dist/detail/group_state.h"
#include "mezzo/dist/detail/tree_sum.h"
#include "mezzo/ops/detail/inplace.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo::dist {

namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t rounded_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

double factor_of(const DataParallelOptions& options, int ranks) {
  if (options.reduction != ReduceOp::mean) return 1;
  return 1.0 / (options.virtual_parts > 0 ? options.virtual_parts : ranks);
}

DType sum_dtype_of(DType dtype, const DataParallelOptions& options, int ranks) {
  if (options.virtual_parts > 0) return is_16bit(dtype) ? DType::f32 : dtype;
  if (ranks == 1) return dtype;  // nothing travels
  return dtype == DType::f32 ? options.reduce_dtype : dtype;
}

/// Sum over all ranks of `local` times factor, in `result`: of local's length, or of a part's where each rank
/// gets its own. `local` is overwritten, and may be `result` where their dtypes and lengths are the same.
void reduce_over(Transport& transport, const Tensor& local, const Tensor& result, const Reduction& how) {
  void* const data = local.impl().data();
  if (!how.by_tree) {
    if (how.to_shard)
      transport.reduce_scatter(data, result.impl().data(), result.numel(), local.dtype(), ReduceOp::sum);
    else
      transport.all_reduce(data, local.numel(), local.dtype(), ReduceOp::sum);
    return;
  }
  const Tensor sum = tree_reduce_scatter(transport, local);
  if (how.factor != 1) sum.mul_(how.factor);
  const Tensor part = sum.to(how.wire);
  if (how.to_shard) {
    result.copy_(part);
    return;
  }
  const Tensor& whole = result.dtype() == how.wire ? result : local;
  transport.all_gather(part.impl().data(), whole.impl().data(),
                       static_cast<std::size_t>(part.numel() * size_of(how.wire)));
  if (!whole.is_same(result)) result.copy_(whole);
}

/// Bytes that reduce_over sends from each of so many ranks.
std::uint64_t bytes_sent(const Tensor& local, const Reduction& how, int ranks) {
  const auto ring = [&](DType dtype) {
    return static_cast<std::uint64_t>(local.numel() / ranks * (ranks - 1) * size_of(dtype));
  };
  const std::uint64_t scattered = ring(local.dtype());
  if (how.to_shard) return scattered;
  return scattered + (how.by_tree ? ring(how.wire) : scattered);
}

}  // namespace

std::vector<BucketPlan> plan_buckets(const nn::NamedTensors& parameters, std::span<const std::size_t> order,
                                     int ranks, const DataParallelOptions& options) {
  struct Filling {
    BucketPlan plan;
    std::int64_t limit = 0;
  };
  std::map<DType, Filling> filling;
  std::vector<BucketPlan> plans;
  const auto close = [&](BucketPlan& plan) {
    plan.numel = rounded_up(plan.numel, ranks * kAlignment / size_of(plan.dtype));
    plans.push_back(std::exchange(plan, BucketPlan()));
  };
  std::vector<DType> last_come;  // dtypes in the order in which their last parameter so far came
  for (const std::size_t i : order) {
    const Tensor& parameter = parameters[i].second;
    const DType dtype = parameter.dtype();
    const auto [found, is_first] = filling.try_emplace(dtype);
    auto& [plan, limit] = found->second;
    if (is_first) limit = options.first_bucket_bytes;
    plan.dtype = dtype;
    plan.places.push_back({i, plan.numel, parameter.shape()});
    plan.numel = rounded_up(plan.numel + parameter.numel(), kAlignment / size_of(dtype));
    std::erase(last_come, dtype);
    if (plan.numel * size_of(dtype) >= limit) {
      limit = options.bucket_bytes;
      close(plan);
    } else {
      last_come.push_back(dtype);
    }
  }
  for (const DType dtype : last_come) close(filling.at(dtype).plan);
  return plans;
}

Tensor FlatMemory::take() {
  const auto free = std::find_if(spare_.begin(), spare_.end(), [](const Tensor& flat) {
    return flat.impl().use_count() == 1 && flat.impl().storage->use_count() == 1;
  });
  if (free == spare_.end()) return zeros({numel_}, {.dtype = dtype_, .device = device_});
  Tensor flat = std::move(*free);
  spare_.erase(free);
  return flat;
}

void FlatMemory::give(Tensor flat) {
  constexpr std::size_t kMost = 12;  // sums of 2^11 parts
  if (spare_.size() == kMost) spare_.erase(spare_.begin());
  spare_.push_back(std::move(flat));
}

Bucket::Bucket(BucketPlan plan, Group group, Device device, const DataParallelOptions& options,
               std::string place)
    : plan_(std::move(plan)),
      group_(std::move(group)),
      place_(std::move(place)),
      sum_dtype_(sum_dtype_of(plan_.dtype, options, group_.size())),
      memory_(plan_.numel, sum_dtype_, device),
      results_(plan_.numel, plan_.dtype, device) {
  const bool has_parts = options.virtual_parts > 0;
  const bool by_tree = has_parts || is_16bit(sum_dtype_);
  const double factor = factor_of(options, group_.size());
  if (!by_tree) factor_ = factor;
  how_ = {.by_tree = by_tree, .factor = by_tree ? factor : 1, .wire = has_parts ? plan_.dtype : sum_dtype_};
}

void Bucket::shard() {
  how_.to_shard = true;
  results_ = FlatMemory(plan_.numel / group_.size(), plan_.dtype, memory_.device());
}

Tensor Bucket::at(const Tensor& flat, std::size_t place) const {
  const BucketPlace& where = plan_.places[place];
  return alias(flat, where.shape, layout::contiguous_strides(where.shape), where.offset, false);
}

void Bucket::begin(int part) {
  missing_ = plan_.places.size();
  merges_ = static_cast<std::size_t>(std::countr_one(static_cast<unsigned>(part)));
  if (merges_ == 0) sums_.push_back(memory_.take());
}

void Bucket::add(std::size_t place, const Tensor& gradient, const Tensor& held) {
  --missing_;
  if (merges_ > 0) {
    add_part(place, gradient);
    return;
  }
  const Tensor to = at(sums_.back(), place);
  if (!gradient.defined() && !held.defined()) {
    to.zero_();
    return;
  }
  const Tensor all = gradient.defined() && held.defined() ? mezzo::add(held, gradient)
                     : held.defined()                     ? held
                                                          : gradient;
  if (factor_ == 1)
    to.copy_(all);
  else
    ops::scale_into(to, all, factor_);
}

void Bucket::add_part(std::size_t place, const Tensor& gradient) {
  Tensor sum = at(sums_.back(), place);
  // Zeros are added too: -0 + 0 is 0 wherever in the tree it is.
  if (gradient.defined())
    sum.add_(gradient);
  else
    sum.add_(0.0);
  for (std::size_t i = 1; i < merges_; ++i) {
    const Tensor before = at(sums_[sums_.size() - 1 - i], place);
    before.add_(sum);
    sum = before;
  }
}

void Bucket::end_part() {
  for (; merges_ > 1; --merges_) {
    memory_.give(std::move(sums_.back()));
    sums_.pop_back();
  }
  merges_ = 0;
}

void Bucket::start() {
  end_part();
  const Tensor& local = sums_.front();
  const bool in_place = !how_.to_shard && sum_dtype_ == plan_.dtype;
  result_ = in_place ? local : results_.take();
  if (plan_.numel == 0) return;
  if (group_.size() == 1) {
    if (how_.factor != 1) local.mul_(how_.factor);
    if (!in_place) result_.copy_(local);
    return;
  }
  group_.state().count(bytes_sent(local, how_, group_.size()));
  work_ = group_.state().start(local.device(), {local, result_},
                               [local, result = result_, how = how_, place = place_](Transport& transport) {
                                 const NoGrad no_grad;
                                 transport.set_place(place);
                                 reduce_over(transport, local, result, how);
                                 transport.set_place("");
                               });
}

void Bucket::end() {
  work_ = {};
  if (!result_.is_same(sums_.front())) results_.give(result_);
  result_ = {};
  for (Tensor& sum : sums_) memory_.give(std::move(sum));
  sums_.clear();
}

void Bucket::abandon() noexcept {
  try {
    work_.wait();
  } catch (...) {  // the backward throws already
  }
  work_ = {};
  result_ = {};
  sums_.clear();
  merges_ = 0;
}

}  // namespace mezzo::dist
