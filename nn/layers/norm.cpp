// Checks and forward of all normalization layers. BatchNorm and InstanceNorm share RunningNorm, which
// counts batches and gives each its momentum. For a cumulative mean (no momentum) that count is read back.
#include "mezzo/nn/norm.h"

#include "mezzo/autograd/checkpoint.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/ops.h"

namespace mezzo::nn {

namespace {

void fill(const Param& weight, const Param& bias) {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

const Shape& checked(std::string_view name, const Shape& shape) {
  bool good = !shape.empty();
  for (const std::int64_t size : shape) good = good && size > 0;
  if (good) return shape;
  throw ValueError(name, "a normalized_shape of at least one dim, of sizes of at least 1", to_string(shape),
                   "name the sizes of the input's last dims");
}

void require_ending(const Module& layer, const Tensor& x, const Shape& shape) {
  const bool fits =
      x.defined() && x.dim() >= static_cast<std::int64_t>(shape.size()) &&
      std::equal(shape.begin(), shape.end(), x.shape().end() - static_cast<std::ptrdiff_t>(shape.size()));
  if (fits || !x.defined()) return;  // the op refuses undefined tensors
  throw ShapeError(layer.described(), "an input whose last sizes are " + to_string(shape),
                   to_string(x.shape()), "check the layer before, or this one's normalized_shape");
}

std::int64_t checked_groups(std::int64_t groups, std::int64_t channels) {
  if (groups > 0 && channels > 0 && channels % groups == 0) return groups;
  throw ValueError("GroupNorm", "num_groups that divides num_channels, both at least 1",
                   std::to_string(groups) + " groups of " + std::to_string(channels) + " channels",
                   "choose a divisor of the number of channels");
}

std::int64_t checked_features(std::string_view name, std::int64_t count) {
  if (count > 0) return count;
  throw ValueError(name, "num_features of at least 1", std::to_string(count), "pass the number of channels");
}

}  // namespace

// --- LayerNorm

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options)
    : weight(*this, "weight",
             detail::unfilled(options.elementwise_affine, checked("LayerNorm", normalized_shape), options)),
      bias(*this, "bias",
           detail::unfilled(options.elementwise_affine && options.bias, normalized_shape, options)),
      normalized_shape_(normalized_shape),
      eps_(options.eps) {
  reset_parameters();
}
LayerNorm::LayerNorm(std::int64_t size, const LayerNormOptions& options) : LayerNorm(Shape{size}, options) {}

LayerNorm::LayerNorm(const LayerNorm& original, ShareTensors /*tag*/)
    : weight(*this, "weight", original.weight),
      bias(*this, "bias", original.bias),
      normalized_shape_(original.normalized_shape_),
      eps_(original.eps_) {}

void LayerNorm::reset_parameters() { fill(weight, bias); }
void LayerNorm::require_shape(const Tensor& x) const { require_ending(*this, x, normalized_shape_); }

Tensor LayerNorm::forward(const Tensor& x) {
  require_shape(x);
  return layer_norm(x, normalized_shape_, weight, bias, eps_);
}

std::string LayerNorm::extra_repr() const {
  return to_string(normalized_shape_) + ", eps=" + Value(eps_).to_string() +
         ", elementwise_affine=" + detail::bool_text(weight.defined()) +
         ", bias=" + detail::bool_text(bias.defined());
}

// --- RMSNorm

RMSNorm::RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options)
    : weight(*this, "weight",
             detail::unfilled(options.elementwise_affine, checked("RMSNorm", normalized_shape), options)),
      normalized_shape_(normalized_shape),
      eps_(options.eps) {
  reset_parameters();
}
RMSNorm::RMSNorm(std::int64_t size, const RMSNormOptions& options) : RMSNorm(Shape{size}, options) {}

void RMSNorm::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
}

Tensor RMSNorm::forward(const Tensor& x) {
  require_ending(*this, x, normalized_shape_);
  return rms_norm(x, normalized_shape_, weight, eps_);
}

std::string RMSNorm::extra_repr() const {
  return to_string(normalized_shape_) + ", eps=" + (eps_ ? Value(*eps_).to_string() : "none") +
         ", elementwise_affine=" + detail::bool_text(weight.defined());
}

// --- GroupNorm

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, const GroupNormOptions& options)
    : weight(*this, "weight",
             detail::unfilled(options.affine && checked_groups(num_groups, num_channels) > 0, {num_channels},
                              options)),
      bias(*this, "bias", detail::unfilled(options.affine && options.bias, {num_channels}, options)),
      num_groups_(checked_groups(num_groups, num_channels)),
      num_channels_(num_channels),
      eps_(options.eps) {
  reset_parameters();
}

GroupNorm::GroupNorm(const GroupNorm& original, ShareTensors /*tag*/)
    : weight(*this, "weight", original.weight),
      bias(*this, "bias", original.bias),
      num_groups_(original.num_groups_),
      num_channels_(original.num_channels_),
      eps_(original.eps_) {}

void GroupNorm::reset_parameters() { fill(weight, bias); }

void GroupNorm::require_channels(const Tensor& x) const {
  if (!x.defined() || (x.dim() >= 2 && x.size(1) == num_channels_)) return;
  throw ShapeError(described(), "an input [N, " + std::to_string(num_channels_) + ", ...]",
                   to_string(x.shape()), "check the layer before, or this one's num_channels");
}

Tensor GroupNorm::forward(const Tensor& x) {
  require_channels(x);
  return group_norm(x, num_groups_, weight, bias, eps_);
}

std::string GroupNorm::extra_repr() const {
  return std::to_string(num_groups_) + ", " + std::to_string(num_channels_) +
         ", eps=" + Value(eps_).to_string() + ", affine=" + detail::bool_text(weight.defined()) +
         ", bias=" + detail::bool_text(bias.defined());
}

// --- BatchNorm and InstanceNorm

template <bool has_both>
RunningNorm::RunningNorm(std::string_view name, std::int64_t num_features,
                         const RunningNormOptionsOf<has_both>& options)
    : weight(*this, "weight",
             detail::unfilled(options.affine, {checked_features(name, num_features)}, options)),
      bias(*this, "bias", detail::unfilled(options.affine && options.bias, {num_features}, options)),
      running_mean(*this, "running_mean",
                   detail::unfilled(options.track_running_stats, {num_features}, options)),
      running_var(*this, "running_var",
                  detail::unfilled(options.track_running_stats, {num_features}, options)),
      num_batches_tracked(*this, "num_batches_tracked",
                          options.track_running_stats
                              ? zeros({}, {.dtype = DType::i64, .device = options.device})
                              : Tensor()),
      num_features_(num_features),
      eps_(options.eps),
      momentum_(options.momentum) {
  reset_parameters();
}

RunningNorm::RunningNorm(const RunningNorm& original, ShareTensors /*tag*/)
    : weight(*this, "weight", original.weight),
      bias(*this, "bias", original.bias),
      running_mean(*this, "running_mean", original.running_mean.get()),
      running_var(*this, "running_var", original.running_var.get()),
      num_batches_tracked(*this, "num_batches_tracked", original.num_batches_tracked.get()),
      num_features_(original.num_features_),
      eps_(original.eps_),
      momentum_(original.momentum_) {}

void RunningNorm::reset_running_stats() {
  if (!running_mean.defined()) return;
  init::zeros_(running_mean);
  init::ones_(running_var);
  init::zeros_(num_batches_tracked);
}

void RunningNorm::reset_parameters() {
  reset_running_stats();
  fill(weight, bias);
}

double RunningNorm::next_momentum() {
  if (is_training() && num_batches_tracked.defined() && !autograd::is_recomputing()) {
    const NoGrad no_grad;
    num_batches_tracked->add_(1);
    if (!momentum_) return 1 / static_cast<double>(num_batches_tracked->item<std::int64_t>());
  }
  return momentum_.value_or(0);
}

void RunningNorm::require_channels(const Tensor& x, std::int64_t dims, std::int64_t or_dims,
                                   std::int64_t channel) const {
  if (!x.defined()) return;
  const std::string either = std::to_string(dims) + (or_dims == dims ? "" : " or " + std::to_string(or_dims));
  if (x.dim() != dims && x.dim() != or_dims) {
    throw ShapeError(described(), "an input of " + either + " dims", to_string(x.shape()),
                     "use the layer for that number of dims, or reshape");
  }
  if (x.size(channel) == num_features_) return;
  throw ShapeError(described(), "an input with " + std::to_string(num_features_) + " channels (num_features)",
                   to_string(x.shape()), "check the layer before, or this one's num_features");
}

std::string RunningNorm::extra_repr() const {
  return std::to_string(num_features_) + ", eps=" + Value(eps_).to_string() +
         ", momentum=" + (momentum_ ? Value(*momentum_).to_string() : "none") +
         ", affine=" + detail::bool_text(weight.defined()) + ", bias=" + detail::bool_text(bias.defined()) +
         ", track_running_stats=" + detail::bool_text(running_mean.defined());
}

template <int kSpatial>
BatchNorm<kSpatial>::BatchNorm(std::int64_t num_features, const RunningNormOptions& options)
    : RunningNorm("BatchNorm" + std::to_string(kSpatial) + "d", num_features, options) {}

template <int kSpatial>
BatchNorm<kSpatial>::BatchNorm(const BatchNorm& original, ShareTensors tag) : RunningNorm(original, tag) {}

template <int kSpatial>
Tensor BatchNorm<kSpatial>::forward(const Tensor& x) {
  require_input(x);
  const double momentum = next_momentum();
  return batch_norm(x, running_mean, running_var, weight, bias, uses_batch(), momentum, eps());
}

template <int kSpatial>
InstanceNorm<kSpatial>::InstanceNorm(std::int64_t num_features, const InstanceNormOptions& options)
    : RunningNorm("InstanceNorm" + std::to_string(kSpatial) + "d", num_features, options) {}

template <int kSpatial>
Tensor InstanceNorm<kSpatial>::forward(const Tensor& x) {
  const bool one_sample = x.defined() && x.dim() == kSpatial + 1;
  require_channels(x, kSpatial + 2, kSpatial + 1, one_sample ? 0 : 1);
  const double momentum = next_momentum();
  const Tensor batch = one_sample ? unsqueeze(x, 0) : x;
  const Tensor y =
      instance_norm(batch, running_mean, running_var, weight, bias, uses_batch(), momentum, eps());
  return one_sample ? squeeze(y, 0) : y;
}

template class BatchNorm<1>;
template class BatchNorm<2>;
template class BatchNorm<3>;
template class InstanceNorm<1>;
template class InstanceNorm<2>;
template class InstanceNorm<3>;

}  // namespace mezzo::nn
