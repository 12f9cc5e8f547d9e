// Buffers of a model: broadcast, or put back to the step's beginning for each part and added up in the tree.
#include "mezzo/dist/detail/model_buffers.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/dist/collectives.h"

namespace mezzo::dist {

namespace {

/// Tensors of one dtype and device, as one message.
void broadcast_flat(const std::vector<Tensor>& tensors, const Group& group) {
  std::int64_t numel = 0;
  for (const Tensor& tensor : tensors) numel += tensor.numel();
  const Tensor flat = empty({numel}, options_of(tensors.front()));
  const auto each_place = [&](auto f) {
    std::int64_t offset = 0;
    for (const Tensor& tensor : tensors) {
      const Shape& shape = tensor.shape();
      f(tensor, alias(flat, shape, layout::contiguous_strides(shape), offset, false));
      offset += tensor.numel();
    }
  };
  if (group.rank() == 0) each_place([](const Tensor& tensor, const Tensor& place) { place.copy_(tensor); });
  broadcast(flat, 0, {.group = group});
  if (group.rank() != 0) each_place([](const Tensor& tensor, const Tensor& place) { tensor.copy_(place); });
}

/// The floating tensors as plan_buckets takes them, without names.
nn::NamedTensors unnamed_floating(const std::vector<Tensor>& tensors) {
  nn::NamedTensors result;
  for (const Tensor& tensor : tensors)
    if (is_floating(tensor.dtype())) result.emplace_back("", tensor);
  return result;
}

}  // namespace

void broadcast_values(const std::vector<Tensor>& tensors, const Group& group) {
  if (group.size() == 1) return;
  constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
  const NoGrad no_grad;
  std::vector<Tensor> rest = tensors;
  while (!rest.empty()) {
    const Tensor first = rest.front();
    std::vector<Tensor> now, later;
    std::int64_t bytes = 0;
    for (Tensor& tensor : rest) {
      const bool fits = tensor.dtype() == first.dtype() && tensor.device() == first.device() &&
                        (now.empty() || bytes < kMostBytes);
      if (fits) bytes += tensor.numel() * size_of(tensor.dtype());
      (fits ? now : later).push_back(std::move(tensor));
    }
    broadcast_flat(now, group);
    rest = std::move(later);
  }
}

ModelBuffers::ModelBuffers(std::vector<Tensor> buffers, Group group, int parts)
    : buffers_(std::move(buffers)), group_(std::move(group)), parts_(parts) {
  if (parts == 0) return;
  const nn::NamedTensors floating = unnamed_floating(buffers_);
  if (floating.empty()) return;
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  const DataParallelOptions options{.reduction = ReduceOp::sum,
                                    .first_bucket_bytes = kNoLimit,
                                    .bucket_bytes = kNoLimit,
                                    .virtual_parts = parts};
  std::vector<std::size_t> order(floating.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (BucketPlan& plan : plan_buckets(floating, order, group_.size(), options)) {
    for (BucketPlace& place : plan.places) {  // numbers among all buffers
      const Tensor& tensor = floating[place.parameter].second;
      const auto found = std::find_if(buffers_.begin(), buffers_.end(),
                                      [&](const Tensor& buffer) { return buffer.is_same(tensor); });
      place.parameter = static_cast<std::size_t>(found - buffers_.begin());
    }
    sums_.emplace_back(std::move(plan), group_, floating.front().second.device(), options, "buffers");
  }
}

void ModelBuffers::before_forward() {
  if (parts_ == 0) {
    broadcast_values(buffers_, group_);
    return;
  }
  if (!std::exchange(is_new_part_, false)) return;
  const NoGrad no_grad;
  if (at_begin_.empty()) {
    for (const Tensor& buffer : buffers_) at_begin_.push_back(buffer.clone());
  } else {
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(at_begin_[i]);
  }
}

void ModelBuffers::end_part(int part) {
  if (parts_ == 0) return;
  is_new_part_ = true;
  const NoGrad no_grad;
  for (Bucket& sum : sums_) {
    sum.begin(part);
    const auto& places = sum.plan().places;
    for (std::size_t i = 0; i < places.size(); ++i) {
      // Divided before they are added, so that the mean of large values is finite.
      const Tensor& buffer = buffers_[places[i].parameter];
      const Tensor wide = is_16bit(buffer.dtype()) ? buffer.to(DType::f32) : buffer;
      sum.add(i, wide.mul(1.0 / parts_), Tensor());
    }
    sum.end_part();
  }
}

void ModelBuffers::end_step() {
  if (parts_ == 0) return;
  const NoGrad no_grad;
  for (Bucket& sum : sums_) sum.start();
  for (Bucket& sum : sums_) {
    sum.wait();
    const auto& places = sum.plan().places;
    for (std::size_t i = 0; i < places.size(); ++i) buffers_[places[i].parameter].copy_(sum.view(i));
    sum.end();
  }
  at_begin_.clear();
}

void ModelBuffers::abandon() noexcept {
  is_new_part_ = true;
  for (Bucket& sum : sums_) sum.abandon();
  try {
    const NoGrad no_grad;
    for (std::size_t i = 0; i < at_begin_.size(); ++i) buffers_[i].copy_(at_begin_[i]);
  } catch (...) {  // the model was moved meanwhile; the backward throws already
  }
  at_begin_.clear();
}

}  // namespace mezzo::dist
