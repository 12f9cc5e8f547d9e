// Statistics over ranks: each rank's own statistics are exchanged by one sum, and combined by ops; the rest
// is batch_norm with given statistics. Its gradient is batch_norm's with the sums over all ranks; second
// derivatives differentiate the composition, whose sum over ranks has a history.
#include "mezzo/dist/sync_batch_norm.h"

#include <tuple>
#include <utility>
#include <vector>

#include "mezzo/autograd/bind.h"
#include "mezzo/autograd/checkpoint.h"
#include "mezzo/autograd/decomposed.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/ops/norm/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo::dist {

namespace {

// The ops here are in no registry: a group is no value that a caller by name, a sweep or a table of ops could
// give.

// The sum over the ranks of a group. Its gradient is the sum of all ranks' gradients.
struct SumOverRanksAttrs {
  Group group;
  static constexpr auto fields() { return std::tuple<>{}; }
};
Tensor sum_over_ranks(const Tensor& x, const Group& group);
Outputs sum_over_ranks_forward(const ForwardArgs<SumOverRanksAttrs>& args) {
  Tensor sum = clone(args.in(0), MemoryFormat::contiguous);
  all_reduce(sum, ReduceOp::sum, {.group = args.attrs.group});
  return sum;
}
Gradients sum_over_ranks_vjp(const VjpArgs<SumOverRanksAttrs>& args) {
  return {sum_over_ranks(args.grad(), args.attrs.group)};
}
constexpr Op<SumOverRanksAttrs> sum_over_ranks_op{
    .info = {.name = "sum_over_ranks", .category = Category::passthrough},
    .samples = [] { return std::vector<Sample<SumOverRanksAttrs>>(); },
    .forward = sum_over_ranks_forward,
    .vjp = sum_over_ranks_vjp,
    .saves = kSaveNothing,
};
Tensor sum_over_ranks(const Tensor& x, const Group& group) {
  return bind(sum_over_ranks_op, {x}, SumOverRanksAttrs{group});
}

/// Per channel, over the samples of all ranks.
struct Statistics {
  Tensor mean, variance;  ///< biased
  Tensor count;           ///< values per channel, [1, 1]
};

/// x [N, C, ..] in the dtype to compute in.
Statistics statistics_of(const Tensor& x, const Group& group) {
  const std::int64_t channels = x.size(1);
  const std::int64_t count = channels == 0 ? 0 : x.numel() / channels;
  Dims over;
  for (std::int64_t d = 0; d < x.dim(); ++d)
    if (d != 1) over.push_back(d);
  // Sums over no values are zeros with history, so a rank without samples takes part in backward, too.
  const Tensor own_mean = count > 0 ? mean(x, over) : sum(x, over);
  const Tensor own_variance = count > 0 ? var(x, over, false) : sum(x, over);
  const TensorOptions options = options_of(own_mean);
  const Tensor own_count = full({1}, static_cast<double>(count), options);
  const Tensor row = unsqueeze(cat({own_mean, own_variance, own_count}), 0);
  const auto no_rows = [&](int n) { return zeros({n, row.size(1)}, options); };
  const Tensor placed = cat({no_rows(group.rank()), row, no_rows(group.size() - 1 - group.rank())});
  const Tensor rows = sum_over_ranks(placed, group);
  const Tensor means = narrow(rows, 1, 0, channels), variances = narrow(rows, 1, channels, channels);
  const Tensor counts = narrow(rows, 1, 2 * channels, 1).detach();
  const Tensor total = sum(counts, {0}, true);
  const Tensor weights = counts / clamp_min(total, 1.0);
  const Tensor whole_mean = sum(means * weights, {0});
  const Tensor between = square(means - whole_mean);
  return {whole_mean, sum((variances + between) * weights, {0}), total};
}

// --- batch_norm with these statistics. Inputs: x, weight, bias; outputs: y, mean, variance, count

struct SyncNormAttrs {
  Group group;
  double eps = 1e-5;
  static constexpr auto fields() { return std::tuple{attr("eps", &SyncNormAttrs::eps)}; }
};

Outputs sync_norm_forward(const ForwardArgs<SyncNormAttrs>& args) {
  const Tensor& x = args.in(0);
  const Statistics all = statistics_of(is_16bit(x.dtype()) ? to(x, DType::f32) : x, args.attrs.group);
  Outputs outputs(batch_norm(x, all.mean, all.variance, args.in(1), args.in(2), false, 0, args.attrs.eps));
  for (const Tensor& statistic : {all.mean, all.variance, all.count}) outputs.push_back(statistic);
  return outputs;
}

/// x' = (grad - mean of grad - y^ mean of (grad y^)) w / deviation, with means over all ranks and y^ what is
/// multiplied by the weight w. The second and third term are a batch_norm, too.
Gradients sync_norm_vjp(const VjpArgs<SyncNormAttrs>& args) {
  if (grad_enabled()) return decomposed(args);
  const Tensor x = args.stored_in(0), weight = args.stored_in(1);
  const Tensor mean = args.out(1), variance = args.out(2), count = args.out(3);
  const DType dtype = mean.dtype();
  const ops::BatchNormBackwardAttrs attrs{{true, true, true, dtype, dtype}, false, args.attrs.eps};
  const Outputs own = ops::batch_norm_backward(args.grad(), x, mean, variance, weight, attrs);
  Gradients gradients{Tensor(), own[1], own[2]};
  if (!args.needs(0)) return gradients;
  const Tensor sums = sum_over_ranks(cat({own[1], own[2]}), args.attrs.group);
  const Tensor one = weight.defined() ? to(weight, dtype) : ones_like(mean);
  const Tensor factor = one * rsqrt(variance + args.attrs.eps) / neg(clamp_min(view(count, {1}), 1.0));
  const std::int64_t channels = mean.size(0);
  const Tensor of_deviation = narrow(sums, 0, 0, channels) * factor;
  const Tensor of_mean = narrow(sums, 0, channels, channels) * factor;
  const Tensor common =
      batch_norm(to(x, dtype), mean, variance, of_deviation, of_mean, false, 0, args.attrs.eps);
  gradients[0] = common.add_(own[0]);
  return gradients;
}

constexpr Op<SyncNormAttrs> sync_norm_op{
    .info = {.name = "sync_batch_norm",
             .category = Category::passthrough,
             .optional_inputs = tensor_set(1, 2)},
    .samples = [] { return std::vector<Sample<SyncNormAttrs>>(); },
    .forward = sync_norm_forward,
    .vjp = sync_norm_vjp,
    .saves = {tensor_set(0, 1, 2), tensor_set(1, 2, 3)},
};

/// running = (1 - rate) running + rate fresh.
void move_running(const Tensor& running, const Tensor& fresh, const Tensor& rate) {
  running.copy_(to(running, fresh.dtype()) * (1.0 - rate) + fresh * rate);
}

template <int kSpatial>
nn::surgery::Rule rule_for(const Group& group) {
  return nn::surgery::of_type<nn::BatchNorm<kSpatial>>(
      [group](nn::BatchNorm<kSpatial>& norm) -> nn::surgery::Decision {
        return nn::make<SyncBatchNorm<kSpatial>>(norm, group);
      },
      nn::surgery::Subclasses::keep);
}

template <int kSpatial>
bool has_sync(const nn::Module& model) {
  return dynamic_cast<const SyncBatchNorm<kSpatial>*>(&model) != nullptr ||
         nn::surgery::count<SyncBatchNorm<kSpatial>>(model) > 0;
}

}  // namespace

template <int kSpatial>
SyncBatchNorm<kSpatial>::SyncBatchNorm(std::int64_t num_features, const nn::RunningNormOptions& options,
                                       Group group)
    : nn::BatchNorm<kSpatial>(num_features, options), group_(std::move(group)) {}

template <int kSpatial>
SyncBatchNorm<kSpatial>::SyncBatchNorm(const nn::BatchNorm<kSpatial>& original, Group group)
    : nn::BatchNorm<kSpatial>(original, nn::ShareTensors{}), group_(std::move(group)) {}

template <int kSpatial>
Tensor SyncBatchNorm<kSpatial>::forward(const Tensor& x) {
  if (!this->is_training() || group_.size() == 1 || !x.defined()) return nn::BatchNorm<kSpatial>::forward(x);
  this->require_input(x);
  const NoInputHook no_autocast;
  const double momentum = this->next_momentum();
  const Outputs outputs =
      bind(sync_norm_op, {x, this->weight, this->bias}, SyncNormAttrs{group_, this->eps()});
  if (this->running_mean.defined() && !autograd::is_recomputing()) {
    const NoGrad no_grad;
    const Tensor count = view(outputs[3], {1});
    const Tensor rate = clamp_max(count, 1.0) * momentum;  // a batch without values teaches nothing
    move_running(this->running_mean, outputs[1], rate);
    move_running(this->running_var, outputs[2] * (count / clamp_min(count - 1.0, 1.0)), rate);
  }
  return outputs[0];
}

template class SyncBatchNorm<1>;
template class SyncBatchNorm<2>;
template class SyncBatchNorm<3>;

nn::surgery::Report convert_sync_batchnorm(nn::Module& model, const Group& group) {
  return nn::surgery::replace(model, {rule_for<1>(group), rule_for<2>(group), rule_for<3>(group)});
}

bool has_sync_batchnorm(const nn::Module& model) {
  return has_sync<1>(model) || has_sync<2>(model) || has_sync<3>(model);
}

}  // namespace mezzo::dist
