// The way of gradients through a Reducer during a backward: into buckets, or held back, and then to `.grad`.
#include "mezzo/dist/detail/reducer.h"

#include <mutex>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/recorded/gradients.h"
#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/core/warning.h"
#include "mezzo/dist/collectives.h"
#include "mezzo/dist/detail/group_state.h"
#include "mezzo/ops/ops.h"

namespace mezzo::dist {

namespace {

using autograd::AutogradMeta;

/// f(`.grad`), with the leaf's lock held.
template <class F>
void with_grad(const Tensor& leaf, F f) {
  AutogradMeta& meta = autograd::ensure_meta(leaf);
  const std::scoped_lock lock(meta.lock);
  autograd::RecordedGradients::used(meta, leaf.device());
  f(meta.grad);
}

void add_to_grad(const Tensor& leaf, const Tensor& gradient) {
  with_grad(leaf, [&](Tensor& grad) {
    if (grad.defined())
      grad.add_(gradient);
    else
      grad = gradient;
  });
}

/// A gradient in memory of its own.
Tensor own(Tensor gradient, const Tensor& leaf) {
  const MemoryFormat format = layout::format_of(leaf.shape(), leaf.strides());
  const bool is_own = gradient.impl().use_count() == 1 && gradient.impl().storage->use_count() == 1 &&
                      gradient.is_contiguous(format);
  return is_own ? std::move(gradient) : clone(gradient.detach(), format);
}

/// Accumulates into `.grad`, as backward does where a leaf has no receiver.
void accumulate(const Tensor& leaf, Tensor gradient) {
  with_grad(leaf, [&](Tensor& grad) {
    if (grad.defined())
      grad.add_(gradient);
    else
      grad = own(std::move(gradient), leaf);
  });
}

/// Adds a gradient to a leaf's held-back gradient.
void hold(HeldGradient& held, const Tensor& leaf, Tensor gradient) {
  with_grad(leaf, [&](Tensor& grad) {
    if (held.local.defined()) {
      held.local.add_(gradient);
      if (!held.shown.is_same(held.local)) held.shown.add_(gradient);
      return;
    }
    held = {.local = own(std::move(gradient), leaf), .shown = {}, .base = grad};
    held.shown = grad.defined() ? add(grad, held.local) : held.local;
    grad = held.shown;
  });
}

/// Restores the `.grad` from before gradients were held back.
void restore_grad(HeldGradient& held, const Tensor& leaf) {
  if (!held.local.defined()) return;
  const HeldGradient former = std::exchange(held, {});
  with_grad(leaf, [&](Tensor& grad) { grad = former.base; });
}

}  // namespace

void Reducer::begin(std::span<const std::size_t> announced) {
  try {
    is_reduced_ = no_sync_depth_ == 0;
    drop_stale_held();
    require_unchanged();
    if (is_reduced_) begin_reduced(announced);
  } catch (...) {
    abandon();
    throw;
  }
}

void Reducer::receive(std::size_t leaf, Tensor gradient) {
  if (!is_reduced_ || is_alone()) {
    leaves_[leaf].arrived = std::move(gradient);
    return;
  }
  ready_.push_back(leaf);
  take(leaf, gradient);
}

void Reducer::finish() {
  if (!is_reduced_ || is_alone())
    accumulate_locally();
  else
    finish_part();
}

void Reducer::abandon() noexcept {
  for (Leaf& leaf : leaves_) leaf.arrived = {};
  for (Bucket& bucket : buckets_) bucket.abandon();
  if (buffers_ && (part_ > 0 || is_reduced_)) buffers_->abandon();
  part_ = 0;
}

void Reducer::begin_reduced(std::span<const std::size_t> announced) {
  std::vector<std::size_t> unreached;
  std::vector<std::size_t> unused;
  std::size_t next = 0;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (next < announced.size() && announced[next] == i) {
      ++next;
      continue;
    }
    unreached.push_back(i);
    if (parameter(i).requires_grad()) unused.push_back(i);
  }
  if (!unused.empty() && !options_.find_unused_parameters) refuse_unused(unused);
  local_steps_ = 0;
  if (is_alone()) return;
  for (Leaf& leaf : leaves_) {
    leaf.has_come = false;
    if (part_ == 0) leaf.is_reached = false;
  }
  if (part_ == 0 && has_parts()) note_versions();
  ready_.clear();
  next_bucket_ = 0;
  for (Bucket& bucket : buckets_) bucket.begin(part_);
  for (const std::size_t i : unreached) take(i, Tensor());
}

void Reducer::take(std::size_t i, const Tensor& gradient) {
  Leaf& leaf = leaves_[i];
  leaf.has_come = true;
  if (gradient.defined() || leaf.held.local.defined()) leaf.is_reached = true;
  buckets_[leaf.bucket].add(leaf.place, gradient, leaf.held.local);
  if (part_ + 1 < parts()) return;
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].is_full()) buckets_[next_bucket_++].start();
}

void Reducer::finish_part() {
  std::vector<std::size_t> unused;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (!leaves_[i].has_come) unused.push_back(i);
  if (!unused.empty() && !options_.find_unused_parameters) refuse_unused(unused);
  for (const std::size_t i : unused) take(i, Tensor());
  if (buffers_) buffers_->end_part(part_);
  if (++part_ < parts()) {
    for (Bucket& bucket : buckets_) bucket.end_part();
    return;
  }
  finish_step();
}

void Reducer::finish_step() {
  const std::vector<bool> reached = reached_by_any();
  for (const Bucket& bucket : buckets_) bucket.wait();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Leaf& leaf = leaves_[i];
    restore_grad(leaf.held, parameter(i));
    if (reached[i] && !is_sharded_) add_to_grad(parameter(i), buckets_[leaf.bucket].view(leaf.place));
  }
  for (std::size_t j = 0; j < shard_leaves_.size(); ++j) {
    const ShardRange& range = shard_ranges_[j];
    if (!reached[range.parameter]) continue;
    const Tensor& leaf = shard_leaves_[j];
    const Tensor& result = buckets_[range.bucket].result();
    const std::int64_t offset = range.offset - group_.rank() * result.numel();
    add_to_grad(leaf, alias(result, leaf.shape(), layout::contiguous_strides(leaf.shape()), offset, false));
  }
  for (Bucket& bucket : buckets_) bucket.end();
  has_held_ = false;
  part_ = 0;
  if (buffers_) buffers_->end_step();
  if (!is_layout_fixed_ && mezzo::detail::Recording::of(device_) == nullptr) rebuild_buckets();
}

std::vector<bool> Reducer::reached_by_any() {
  std::vector<bool> reached;
  for (const Leaf& leaf : leaves_) reached.push_back(leaf.is_reached);
  if (!options_.find_unused_parameters || group_.size() == 1) return reached;
  const Device where = group_.state().host() ? Device::cpu() : device_;
  const auto n = static_cast<std::int64_t>(leaves_.size());
  const Tensor flags = empty({n}, {.dtype = DType::u8});
  auto* const mine = static_cast<std::uint8_t*>(flags.impl().data());
  for (std::size_t i = 0; i < leaves_.size(); ++i) mine[i] = reached[i] ? 1 : 0;
  const Tensor moved = flags.to(where);
  all_reduce(moved, ReduceOp::max, {.group = group_});
  const Tensor all = moved.to(Device::cpu());
  const auto* const any = static_cast<const std::uint8_t*>(all.impl().data());
  for (std::size_t i = 0; i < leaves_.size(); ++i) reached[i] = any[i] != 0;
  return reached;
}

void Reducer::accumulate_locally() {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Leaf& leaf = leaves_[i];
    Tensor gradient = std::exchange(leaf.arrived, Tensor());
    if (is_reduced_) {  // what was held back is in `.grad`
      leaf.held = {};
      if (gradient.defined()) accumulate(parameter(i), std::move(gradient));
    } else if (gradient.defined()) {
      hold(leaf.held, parameter(i), std::move(gradient));
    }
  }
  if (!is_reduced_ && !has_held_) note_versions();
  has_held_ = !is_reduced_;
}

void Reducer::note_versions() {
  for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i].version = parameter(i).version();
}

void Reducer::drop_stale_held() {
  if (!has_held_) return;
  has_held_ = false;
  bool is_written = false;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    HeldGradient& held = leaves_[i].held;
    if (!held.local.defined()) continue;
    is_written = is_written || leaves_[i].version != parameter(i).version();
    if (held.shown.is_same(parameter(i).grad()))
      has_held_ = true;
    else
      held = {};
  }
  if (!has_held_ && is_written) warn_of_local_steps();
}

void Reducer::warn_of_local_steps() {
  constexpr int kMany = 3;  // once or twice it may be meant: what is left over of an epoch, and other weights
  static WarningSite site("steps_in_no_sync");
  if (++local_steps_ < kMany || group_.size() == 1 || group_.rank() != 0 || !site.is_fresh()) return;
  site.warn("no_sync", "a backward outside of it before each optimizer step",
            std::to_string(local_steps_) + " steps with gradients of one rank alone",
            "end it before the last backward of a step, so that ranks keep the same parameters");
}

void Reducer::require_unchanged() {
  for (const auto& [name, tensor] : frozen_) {
    if (!tensor.requires_grad()) continue;
    throw StateError("DataParallel", "parameters that require grad from the beginning",
                     name + ", which did not", "make the DataParallel when it does");
  }
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& [name, tensor] = parameters_[i];
    if (tensor.dtype() != dtypes_[i] || !(tensor.device() == device_)) {
      throw StateError(
          "DataParallel",
          name + " as " + std::string(mezzo::to_string(dtypes_[i])) + " on " + mezzo::to_string(device_),
          std::string(mezzo::to_string(tensor.dtype())) + " on " + mezzo::to_string(tensor.device()),
          "convert or move the model before its DataParallel is made");
    }
    const bool is_awaited = part_ > 0 || (has_held_ && leaves_[i].held.local.defined());
    if (!is_awaited || leaves_[i].version == tensor.version()) continue;
    throw StateError("DataParallel",
                     has_parts() ? "the same parameters in all parts of a step"
                                 : "the same parameters until what no_sync() has held back is reduced",
                     name + ", which was written meanwhile",
                     has_parts() ? "call optimizer.step() after parts() backwards"
                                 : "call optimizer.step() after a backward outside of no_sync()");
  }
}

void Reducer::refuse_unused(std::span<const std::size_t> unused) const {
  constexpr std::size_t kMostNamed = 8;
  const std::string names =
      mezzo::detail::listed(unused, kMostNamed, [&](std::size_t i) { return parameters_[i].first; });
  throw AutogradError("DataParallel", "a backward that gives all parameters a gradient", "none for " + names,
                      "pass find_unused_parameters = true, or freeze them by requires_grad_(false)");
}

}  // namespace mezzo::dist
