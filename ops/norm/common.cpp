// Shared by the normalizations; the contracts are in common.h.
#include "mezzo/ops/norm/common.h"

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/ops.h"

namespace mezzo::ops {

void require_parameter(std::string_view op, std::string_view what, const Tensor& parameter,
                       const Shape& shape, DType compute) {
  if (!parameter.defined()) return;
  if (parameter.shape() != shape) {
    throw ShapeError(op, std::string(what) + " of shape " + to_string(shape), to_string(parameter.shape()),
                     "reshape it, or leave it out");
  }
  if (is_floating(parameter.dtype()) && promote(parameter.dtype(), compute) == compute) return;
  throw DTypeError(op, std::string(what) + " in f16, bf16 or " + to_string(compute),
                   to_string(parameter.dtype()), "convert it to the dtype of x");
}

namespace {

/// The factor of each row of x by which squares of its deviations stay in f32: 1, or a power of two that
/// leaves all digits. A constant of the graph.
Tensor row_scale(const Tensor& x, const Dims& over, bool centered) {
  const NoGrad no_grad;
  constexpr double kWide = 0x1p60, kScale = 0x1p-66;
  const Tensor quarter = x * 0.25;  // whose range is within f32 too
  const Tensor range =
      centered ? amax(quarter, over, true) - amin(quarter, over, true) : amax(abs(quarter), over, true);
  const Tensor wide = gt(range, kWide / 4);
  return where(wide, full_like(range, kScale), ones_like(range));
}

}  // namespace

Tensor ComposedNorm::normalized(const Tensor& x) const {
  if (variance.defined()) {
    const Tensor rstd = rsqrt(variance + eps);
    return (mean.defined() ? x - mean : x) * rstd;
  }
  // Rows with a scale are so wide that eps is nothing to their variance; it may vanish.
  const bool scaled = x.dtype() == DType::f32 && x.numel() > 0;
  const Tensor scale = scaled ? row_scale(x.detach(), over, centered) : Tensor();
  const Tensor values = scaled ? x * scale : x;
  const Tensor shifted = centered ? values - mezzo::mean(values, over, true) : values;
  const Tensor spread = mezzo::mean(shifted * shifted, over, true);
  return shifted * rsqrt(scaled ? spread + scale * scale * eps : spread + eps);
}

Tensor ComposedNorm::forward(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
  Tensor y = normalized(x);
  if (weight.defined()) y = y * weight;
  return bias.defined() ? y + bias : y;
}

Outputs composed_norm_gradients(
    const Tensor& grad, const Tensor& x, const Tensor& weight, const Shape& parameters,
    const GradientRequest& request,
    const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& forward) {
  // The gradient of an absent weight is that of ones.
  const Tensor factors = weight.defined() ? weight : ones(parameters, options_of(x));
  Outputs outputs = composed_gradients(
      {x, factors, zeros(parameters, options_of(x))}, std::array{request.input, request.weight, request.bias},
      {grad}, [&](const Tensors& own) -> Outputs { return forward(own[0], own[1], own[2]); });
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i] = to(outputs[i], request.input && i == 0 ? request.input_dtype : request.parameter_dtype);
  return outputs;
}

ChannelNorm::ChannelNorm(std::string_view op, const Shape& shape, std::int64_t groups) {
  if (shape.size() < 2) {
    throw ShapeError(op, "an input [N, C, ...]", to_string(shape), "unsqueeze the dim that is missing");
  }
  const std::int64_t samples = shape[0];
  channels_ = shape[1];
  if (groups < 1 || channels_ % groups != 0) {
    throw ValueError(op, "a number of groups that divides the " + std::to_string(channels_) + " channels",
                     std::to_string(groups), "num_groups = 1 takes all of them together");
  }
  std::int64_t length = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) length *= shape[d];
  const std::int64_t of_group = channels_ / groups;
  blocked_ = {samples, groups, of_group, length};
  static_cast<void>(layout::checked_numel(op, blocked_));  // any number of groups divides no channels
  over_ = {2, 3};
  layout_ = {.rows = samples * groups,
             .runs = of_group,
             .length = length,
             .row_step = of_group * length,
             .run_step = length,
             .row_period = groups,
             .row_channels = of_group,
             .run_channels = 1};
}

ChannelNorm ChannelNorm::grouped(std::string_view op, const Shape& shape, std::int64_t groups) {
  return {op, shape, groups};
}

ChannelNorm ChannelNorm::batched(std::string_view op, const Shape& shape) {
  ChannelNorm norm(op, shape, 1);
  const std::int64_t samples = norm.blocked_[0], length = norm.blocked_[3];
  norm.over_ = {0, 3};
  norm.layout_ = {.rows = norm.channels_,
                  .runs = samples,
                  .length = length,
                  .row_step = length,
                  .run_step = norm.channels_ * length,
                  .row_period = std::max<std::int64_t>(norm.channels_, 1),
                  .row_channels = 1,
                  .run_channels = 0};
  return norm;
}

kernels::ChannelLayout ChannelNorm::layout_in(MemoryFormat format) const {
  kernels::ChannelLayout layout = layout_;
  // One value per channel and sample lies alike in both formats: as a row of a group, or a row of channels.
  layout.channels_last = blocked_[3] == 1 ? layout.one_channel() : format == MemoryFormat::channels_last;
  if (layout.channels_last && layout.one_channel()) {
    layout.length *= layout.runs;
    layout.runs = 1;
  }
  return layout;
}

Tensor ChannelNorm::forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const RowStatistics& statistics, double eps, DType result) const {
  const DType compute = compute_dtype(result);
  const MemoryFormat format = x.suggest_memory_format();
  const Tensor in = x.contiguous(format);
  const Tensor factors = kernel_parameter(weight, compute), summands = kernel_parameter(bias, compute);
  Tensor out = empty_like(x, result);
  kernels::channel_norm(x.device(), layout_in(format), view_of(out), view_of(in),
                        {data_or_null(factors), data_or_null(summands)}, statistics.view(), eps, compute);
  return out;
}

Tensor ChannelNorm::sums_of(const Tensor& sums, DType dtype) const {
  const std::int64_t parts = channels_ == 0 ? 0 : sums.numel() / channels_;
  return sum(reshape(sums, {parts, channels_}), {0}, false, dtype);
}

Outputs ChannelNorm::backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                              const RowStatistics& statistics, double eps, const GradientRequest& request,
                              DType compute) const {
  const Device device = x.device();
  const MemoryFormat format = x.suggest_memory_format();
  const Tensor in = x.contiguous(format), upstream = grad.contiguous(format);
  const Tensor factors = kernel_parameter(weight, compute);
  // Kernels leave empty arrays alone, and a sum over nothing is 0.
  const std::int64_t per_row = layout_.one_channel() ? 1 : layout_.runs;
  const auto sums_for = [&](bool wanted) {
    if (!wanted) return Tensor();
    const TensorOptions options{.dtype = compute, .device = device};
    return x.numel() == 0 ? zeros({layout_.rows * per_row}, options)
                          : empty({layout_.rows * per_row}, options);
  };
  const Tensor weight_sums = sums_for(request.weight), bias_sums = sums_for(request.bias);
  Outputs outputs;
  kernels::View input;
  if (request.input) {
    outputs.push_back(empty_like(x, request.input_dtype));
    input = view_of(outputs[0]);
  }
  kernels::channel_norm_backward(
      device, layout_in(format),
      {request.input ? &input : nullptr, data_or_null(weight_sums), data_or_null(bias_sums)},
      view_of(upstream), view_of(in), data_or_null(factors), statistics.view(), eps, compute);
  if (request.weight) outputs.push_back(sums_of(weight_sums, request.parameter_dtype));
  if (request.bias) outputs.push_back(sums_of(bias_sums, request.parameter_dtype));
  return outputs;
}

Tensor ChannelNorm::along_channels(const Tensor& parameter) const {
  return parameter.defined() ? reshape(parameter, {1, blocked_[1], blocked_[2], 1}) : parameter;
}

Tensor ChannelNorm::composed_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                     const RowStatistics& given, double eps) const {
  const ComposedNorm plain{.over = over_,
                           .eps = eps,
                           .centered = true,
                           .mean = along_channels(given.mean),
                           .variance = along_channels(given.variance)};
  const Tensor y = plain.forward(reshape(x, blocked_), along_channels(weight), along_channels(bias));
  return reshape(y, x.shape());
}

RowStatistics ChannelNorm::composed_statistics(const Tensor& x) const {
  const Tensor values = reshape(x, blocked_);
  const Tensor center = mean(values, over_, true), shifted = values - center;
  return {reshape(center, {rows()}), reshape(mean(shifted * shifted, over_), {rows()})};
}

}  // namespace mezzo::ops
