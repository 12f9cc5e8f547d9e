// Descriptors of batch_norm and instance_norm, and the backward op of batch_norm. The ops return the moved
// running statistics beside their result and change nothing; the public functions write them back.
#include "mezzo/autograd/checkpoint.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/norm/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::absent;
using op_samples::real;

struct BatchNormAttrs {
  static constexpr std::string_view kName = "batch_norm";
  static constexpr std::string_view kOwn = "training";
  static constexpr std::string_view kAdvice =
      ": make batches larger or drop the last one, and over several processes call "
      "dist::convert_sync_batchnorm(model)";
  bool training = false;
  double momentum = 0.1;
  double eps = 1e-5;
  MEZZO_FIELDS(BatchNormAttrs, training, momentum, eps)
  /// Whether the input's own statistics are taken.
  [[nodiscard]] bool own() const { return training; }
  [[nodiscard]] ChannelNorm norm(const Shape& shape) const { return ChannelNorm::batched(kName, shape); }
  static std::vector<Sample<BatchNormAttrs>> samples();
};
struct InstanceNormAttrs {
  static constexpr std::string_view kName = "instance_norm";
  static constexpr std::string_view kOwn = "use_input_stats";
  static constexpr std::string_view kAdvice = "";
  bool use_input_stats = true;
  double momentum = 0.1;
  double eps = 1e-5;
  MEZZO_FIELDS(InstanceNormAttrs, use_input_stats, momentum, eps)
  [[nodiscard]] bool own() const { return use_input_stats; }
  static std::vector<Sample<InstanceNormAttrs>> samples();
  [[nodiscard]] ChannelNorm norm(const Shape& shape) const {
    const ChannelNorm batched = ChannelNorm::batched(kName, shape);
    return own() ? ChannelNorm::grouped(kName, shape, std::max<std::int64_t>(batched.channels(), 1))
                 : batched;
  }
};

// --- forward. Inputs: x, running_mean, running_var, weight, bias

/// Throws unless the running statistics are both there or both not.
template <class A>
void require_running(const ForwardArgs<A>& args) {
  const bool mean = args.in(1).defined(), variance = args.in(2).defined();
  const std::string own(A::kOwn);
  if (mean != variance) {
    throw ValueError(A::kName, "running_mean and running_var together",
                     mean ? "running_mean alone" : "running_var alone", "pass both or neither");
  }
  if (!mean && !args.attrs.own()) {
    throw ValueError(A::kName, "running statistics where " + own + " is false", "none",
                     "pass running_mean and running_var, or " + own + " = true");
  }
}

template <class A>
ChannelNorm checked(const ForwardArgs<A>& args, DType compute) {
  constexpr std::array<std::string_view, 5> kNames{"", "a running_mean", "a running_var", "a weight",
                                                   "a bias"};
  const Tensor& x = args.in(0);
  const ChannelNorm norm = args.attrs.norm(x.shape());
  for (std::size_t i = 1; i < kNames.size(); ++i)
    require_parameter(A::kName, kNames[i], args.in(i), {norm.channels()}, compute);
  require_running(args);
  if (args.attrs.own() && norm.values() == 1 && norm.rows() > 0) {
    throw ValueError(A::kName, "more than one value per channel for " + std::string(A::kOwn),
                     to_string(x.shape()), "one value less its mean is always 0" + std::string(A::kAdvice));
  }
  return norm;
}

/// The mean over the rows of each channel: of instance_norm, where each sample has its own.
Tensor of_channels(const Tensor& rows, std::int64_t channels) {
  if (rows.numel() == channels) return reshape(rows, {channels});
  return mean(reshape(rows, {rows.numel() / channels, channels}), {0});
}

/// moved_statistic in plain ops.
Tensor composed_moved_statistic(const Tensor& running, const Tensor& fresh, const Tensor& other,
                                double momentum, double factor) {
  const Tensor kept = to(running, fresh.dtype());
  const Tensor moved = kept * (1 - momentum) + fresh * (momentum * factor);
  return to(where(logical_and(isfinite(fresh), isfinite(other)), moved, kept), running.dtype());
}

/// y, and the running statistics as they are after it, if there are any.
template <class A>
Outputs with_running(const ForwardArgs<A>& args, const ChannelNorm& norm, const Tensor& y,
                     const RowStatistics& own, decltype(moved_statistic)* moved) {
  const Tensor &running_mean = args.in(1), &running_var = args.in(2);
  if (!running_mean.defined()) return y;
  Outputs outputs(y);
  if (!own.mean.defined()) {  // evaluation, or nothing to learn from an empty input
    outputs.push_back(clone(running_mean));
    outputs.push_back(clone(running_var));
    return outputs;
  }
  const auto n = static_cast<double>(norm.values());
  const Tensor fresh_mean = of_channels(own.mean, running_mean.size(0));
  const Tensor fresh_var = of_channels(own.variance, running_mean.size(0));
  const double momentum = args.attrs.momentum;
  outputs.push_back(moved(running_mean, fresh_mean, fresh_var, momentum, 1));
  outputs.push_back(moved(running_var, fresh_var, fresh_mean, momentum, n / (n - 1)));
  return outputs;
}

template <class A>
bool learns(const ForwardArgs<A>& args) {
  return args.attrs.own() && args.in(1).defined() && args.in(0).numel() > 0;
}

template <class A>
Outputs forward(const ForwardArgs<A>& args) {
  const Tensor& x = args.in(0);
  const DType result = norm_dtype(A::kName, x, args.run_dtype), compute = compute_dtype(result);
  const ChannelNorm norm = checked(args, compute);
  RowStatistics statistics;
  if (!args.attrs.own()) {
    statistics = {kernel_parameter(args.in(1), compute), kernel_parameter(args.in(2), compute), true};
  } else if (learns(args)) {
    const TensorOptions options{.dtype = compute, .device = x.device()};
    statistics = {empty({norm.rows()}, options), empty({norm.rows()}, options), false};
  }
  const Tensor y = norm.forward(x, args.in(3), args.in(4), statistics, args.attrs.eps, result);
  return with_running(args, norm, y, args.attrs.own() ? statistics : RowStatistics{}, moved_statistic);
}

template <class A>
Outputs reference(const ForwardArgs<A>& args) {
  const DType result = norm_dtype(A::kName, args.in(0), args.run_dtype), compute = compute_dtype(result);
  const ChannelNorm norm = checked(args, compute);
  const Tensor x = input_as(args, 0, compute);
  RowStatistics given;
  if (!args.attrs.own()) given = {input_as(args, 1, compute), input_as(args, 2, compute), true};
  const Tensor y =
      norm.composed_forward(x, input_as(args, 3, compute), input_as(args, 4, compute), given, args.attrs.eps);
  return with_running(args, norm, to(y, result), learns(args) ? norm.composed_statistics(x) : RowStatistics{},
                      composed_moved_statistic);
}

// --- batch_norm_backward. Inputs: grad, x, running_mean, running_var, weight

constexpr std::string_view kBackward = "batch_norm_backward";

struct Backward {
  explicit Backward(const ForwardArgs<BatchNormBackwardAttrs>& args)
      : request(request_of(kBackward, args)),
        compute(compute_dtype(promote(args.in(0).dtype(), args.in(1).dtype()))),
        norm(ChannelNorm::batched(kBackward, args.in(1).shape())) {
    const Shape channels{norm.channels()};
    require_parameter(kBackward, "a running_mean", args.in(2), channels, compute);
    require_parameter(kBackward, "a running_var", args.in(3), channels, compute);
    require_parameter(kBackward, "a weight", args.in(4), channels, compute);
    if (!args.attrs.training && !(args.in(2).defined() && args.in(3).defined())) {
      throw ValueError(kBackward, "running statistics where training is false", "none",
                       "pass those of the forward");
    }
  }
  GradientRequest request;
  DType compute;
  ChannelNorm norm;
};

Outputs backward_forward(const ForwardArgs<BatchNormBackwardAttrs>& args) {
  const Backward b(args);
  RowStatistics given;
  if (!args.attrs.training)
    given = {kernel_parameter(args.in(2), b.compute), kernel_parameter(args.in(3), b.compute), true};
  return b.norm.backward(args.in(0), args.in(1), args.in(4), given, args.attrs.eps, b.request, b.compute);
}
Outputs backward_reference(const ForwardArgs<BatchNormBackwardAttrs>& args) {
  const Backward b(args);
  RowStatistics given;
  if (!args.attrs.training) given = {input_as(args, 2, b.compute), input_as(args, 3, b.compute), true};
  const auto forward = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return b.norm.composed_forward(x, weight, bias, given, args.attrs.eps);
  };
  return composed_norm_gradients(input_as(args, 0, b.compute), input_as(args, 1, b.compute),
                                 input_as(args, 4, b.compute), {b.norm.channels()}, b.request, forward);
}

std::vector<Sample<BatchNormBackwardAttrs>> backward_samples() {
  const SampleInput x = real({4, 3}), image = real({2, 3, 2, 2}), mean = real({3}), var = real({3}, 0.5, 2);
  return {{{x, x, absent(), absent(), real({3})}, {{}, true}},
          {{image, image, mean, var, real({3})}, {{}, false, 0.1}},
          {{image, image, absent(), absent(), absent()}, {{.weight = false}, true}},
          {{x, x, mean, var, absent()}, {{.input = false}}}};
}
constexpr Op<BatchNormBackwardAttrs> backward_op = gradient_op<BatchNormBackwardAttrs>(
    kBackward, backward_samples, backward_forward, backward_reference, tensor_set(2, 3, 4));

// --- gradients

template <class A>
Gradients vjp(const VjpArgs<A>& args) {
  // Running statistics seldom take part in the graph: their share comes from the composition. Otherwise they
  // are not looked at, since training has written to them.
  const bool running = !args.in_shape(1).empty();
  if (args.needs(1) || args.needs(2) || (running && (args.has_grad(1) || args.has_grad(2))))
    return decomposed(args);
  const GradientAttrs asked = needed_gradients(args, 3, 4);
  if (std::is_same_v<A, InstanceNormAttrs> && args.attrs.own()) {
    const std::int64_t channels = std::max<std::int64_t>(args.in_shape(0)[1], 1);
    const GroupNormBackwardAttrs attrs{asked, {channels, args.attrs.eps}};
    const Tensor x = args.stored_in(0), weight = args.stored_in(3);
    return spread_gradients(attrs, group_norm_backward(args.grad(), x, weight, attrs), 5, 3);
  }
  const BatchNormBackwardAttrs attrs{asked, args.attrs.own(), args.attrs.eps};
  const Tensor mean = args.attrs.own() ? Tensor() : args.stored_in(1);
  const Tensor variance = args.attrs.own() ? Tensor() : args.stored_in(2);
  const Tensor x = args.stored_in(0), weight = args.stored_in(3);
  return spread_gradients(attrs, batch_norm_backward(args.grad(), x, mean, variance, weight, attrs), 5, 3);
}

std::vector<Sample<BatchNormAttrs>> BatchNormAttrs::samples() {
  const SampleInput x = real({4, 3}), image = real({2, 3, 2, 2}), mean = real({3}), var = real({3}, 0.5, 2);
  const SampleInput parameter = real({3});
  return {{{x, absent(), absent(), parameter, parameter}, {.training = true}},
          {{image, mean, var, parameter, absent()}, {.training = true, .momentum = 0.3, .eps = 0.1}},
          {{image, mean, var, parameter, parameter}, {}},
          {{x, mean, var, absent(), absent()}, {.eps = 0.1}}};
}
std::vector<Sample<InstanceNormAttrs>> InstanceNormAttrs::samples() {
  const SampleInput x = real({2, 3, 5}), mean = real({3}), var = real({3}, 0.5, 2), parameter = real({3});
  return {{{x, absent(), absent(), parameter, parameter}, {}},
          {{real({2, 3, 2, 2}), mean, var, absent(), parameter}, {.momentum = 0.3, .eps = 0.1}},
          {{x, mean, var, parameter, absent()}, {.use_input_stats = false}}};
}

template <class A>
constexpr Op<A> kForwardOp = fused_op<A>(A::kName, Category::passthrough, A::samples, forward<A>,
                                         reference<A>, vjp<A>, {~0U, 0}, tensor_set(1, 2, 3, 4));

/// Calls the op and writes the running statistics back.
template <class A>
Tensor normalize_channels(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                          const Tensor& weight, const Tensor& bias, const A& attrs) {
  const Outputs outputs = bind(kForwardOp<A>, {x, running_mean, running_var, weight, bias}, attrs);
  if (attrs.own() && running_mean.defined() && !autograd::is_recomputing()) {
    const NoGrad no_grad;
    running_mean.copy_(outputs[1]);
    running_var.copy_(outputs[2]);
  }
  return outputs[0];
}

const Registered batch_norm_registered{backward_op, kForwardOp<BatchNormAttrs>,
                                       kForwardOp<InstanceNormAttrs>};

}  // namespace

namespace ops {

Outputs batch_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& running_mean,
                            const Tensor& running_var, const Tensor& weight,
                            const BatchNormBackwardAttrs& attrs) {
  return bind(backward_op, {grad, x, running_mean, running_var, weight}, attrs);
}

}  // namespace ops

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum, double eps) {
  return normalize_channels(x, running_mean, running_var, weight, bias,
                            BatchNormAttrs{training, momentum, eps});
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, bool use_input_stats, double momentum,
                     double eps) {
  return normalize_channels(x, running_mean, running_var, weight, bias,
                            InstanceNormAttrs{use_input_stats, momentum, eps});
}

}  // namespace mezzo
