// Shared by the normalizations: checks, their plain compositions, and the layout of group_norm, which
// batch_norm and instance_norm use too.
#pragma once

#include <functional>

#include "mezzo/kernels/norm/norm.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/norm.h"

namespace mezzo::ops {

/// dtype of a result for x. Autocast's f32 does not narrow f64.
[[nodiscard]] inline DType norm_dtype(std::string_view op, const Tensor& x, std::optional<DType> run_dtype) {
  require_floating(op, x);
  return run_dtype ? promote(x.dtype(), *run_dtype) : x.dtype();
}

/// Throws unless `parameter` is undefined, or of `shape` and of a dtype that `compute` holds.
void require_parameter(std::string_view op, std::string_view what, const Tensor& parameter,
                       const Shape& shape, DType compute);

/// A parameter as kernels take it; undefined when it is absent. The caller keeps it while they run.
[[nodiscard]] inline Tensor kernel_parameter(const Tensor& parameter, DType compute) {
  return parameter.defined() ? to(parameter, compute).contiguous() : Tensor();
}
[[nodiscard]] inline void* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.impl().data() : nullptr;
}

/// Which gradients a backward op returns, in this order, and in which dtypes.
struct GradientRequest {
  bool input = true, weight = true, bias = true;
  DType input_dtype = DType::f32, parameter_dtype = DType::f32;
};
/// The part of a backward op's attributes that says so; dtypes that are not named are the common one of grad
/// and x.
struct GradientAttrs {
  bool input = true, weight = true, bias = true;
  std::optional<DType> input_dtype = {}, parameter_dtype = {};
  MEZZO_FIELDS(GradientAttrs, input, weight, bias, input_dtype, parameter_dtype)
};
/// The gradients that a vjp asks for: of its inputs 0, `weight` and `bias` that are needed.
template <class A>
[[nodiscard]] GradientAttrs needed_gradients(const VjpArgs<A>& args, std::size_t weight,
                                             std::optional<std::size_t> bias) {
  const bool of_weight = args.needs(weight), of_bias = bias && args.needs(*bias);
  DType dtype = args.wanted(of_weight || !bias ? weight : *bias);
  if (of_weight && of_bias) dtype = promote(dtype, args.wanted(*bias));
  return {args.needs(0), of_weight, of_bias, args.wanted(0), dtype};
}
/// The request of a backward op's attributes. Throws when grad does not belong to x, and when nothing is
/// asked for.
template <class A>
[[nodiscard]] GradientRequest request_of(std::string_view op, const ForwardArgs<A>& args) {
  const Tensor &grad = args.in(0), &x = args.in(1);
  require_floating(op, grad);
  require_floating(op, x);
  if (grad.shape() != x.shape()) {
    throw ShapeError(op, "grad and x of one shape", to_string(grad.shape()) + " and " + to_string(x.shape()),
                     "pass the gradient of that x's result");
  }
  const A& attrs = args.attrs;
  if (!attrs.input && !attrs.weight && !attrs.bias)
    throw ValueError(op, "a gradient to compute", "none", "ask for input, weight or bias");
  const DType common = promote(grad.dtype(), x.dtype());
  return {attrs.input, attrs.weight, attrs.bias, attrs.input_dtype.value_or(common),
          attrs.parameter_dtype.value_or(common)};
}
/// Spreads the outputs of a backward op, the gradients that were asked for, over the inputs x, weight
/// (`weight_at`) and bias of the op.
template <class A>
[[nodiscard]] Gradients spread_gradients(const A& asked, Outputs found, std::size_t inputs,
                                         std::size_t weight_at) {
  Gradients gradients(inputs);
  std::size_t next = 0;
  if (asked.input) gradients[0] = found[next++];
  if (asked.weight) gradients[weight_at] = found[next++];
  if (asked.bias) gradients[weight_at + 1] = found[next++];
  return gradients;
}

/// A normalization in plain ops: x over the dims `over`, in the dtype it has. Statistics broadcast to x.
struct ComposedNorm {
  Dims over;
  double eps = 0;
  bool centered = true;        ///< otherwise the mean counts as 0
  Tensor mean, variance = {};  ///< given statistics; undefined: x's

  [[nodiscard]] Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) const;

 private:
  [[nodiscard]] Tensor normalized(const Tensor& x) const;
};

/// The reference of a backward op: the gradients that `request` asks for, through `forward`, a normalization
/// of x, weight and bias in plain ops. Parameters have the shape `parameters`.
[[nodiscard]] Outputs composed_norm_gradients(
    const Tensor& grad, const Tensor& x, const Tensor& weight, const Shape& parameters,
    const GradientRequest& request,
    const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& forward);

// --- group_norm, instance_norm, batch_norm

struct GroupNormAttrs {
  std::int64_t num_groups = 1;
  double eps = 1e-5;
  MEZZO_FIELDS(GroupNormAttrs, num_groups, eps)
};
/// Outputs are the gradients asked for.
struct GroupNormBackwardAttrs : GradientAttrs, GroupNormAttrs {
  static constexpr auto fields() { return std::tuple_cat(GroupNormAttrs::fields(), GradientAttrs::fields()); }
};
/// The gradients of group_norm that `attrs` ask for; instance_norm is group_norm with as many groups as
/// channels.
[[nodiscard]] Outputs group_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                          const GroupNormBackwardAttrs& attrs);

/// Outputs are the gradients asked for. The running statistics are read where `training` is false.
struct BatchNormBackwardAttrs : GradientAttrs {
  bool training = false;
  double eps = 1e-5;
  MEZZO_FIELDS(BatchNormBackwardAttrs, training, eps, input, weight, bias, input_dtype, parameter_dtype)
};
/// The gradients of batch_norm that `attrs` ask for; given statistics count as constants.
[[nodiscard]] Outputs batch_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& running_mean,
                                          const Tensor& running_var, const Tensor& weight,
                                          const BatchNormBackwardAttrs& attrs);

/// Mean and variance of rows in the compute type, contiguous.
struct RowStatistics {
  Tensor mean, variance;
  bool given = false;
  [[nodiscard]] kernels::ChannelStatistics view() const {
    return {data_or_null(mean), data_or_null(variance), given};
  }
};

/// A running statistic after a batch, whose own of each channel is `fresh`: (1 - momentum) running + momentum
/// factor fresh. Channels where `fresh` or the batch's `other` statistic is inf or NaN keep theirs.
[[nodiscard]] Tensor moved_statistic(const Tensor& running, const Tensor& fresh, const Tensor& other,
                                     double momentum, double factor);

/// An input [N, C, ...] as the kernels and as the compositions see it.
class ChannelNorm {
 public:
  /// Over groups of channels, sample by sample. Throws ShapeError for less than 2 dims; `groups` divides C.
  [[nodiscard]] static ChannelNorm grouped(std::string_view op, const Shape& shape, std::int64_t groups);
  /// Over the batch, channel by channel.
  [[nodiscard]] static ChannelNorm batched(std::string_view op, const Shape& shape);

  [[nodiscard]] std::int64_t channels() const { return channels_; }
  [[nodiscard]] std::int64_t rows() const { return layout_.rows; }
  /// Values with a mean of their own.
  [[nodiscard]] std::int64_t values() const { return layout_.count(); }

  [[nodiscard]] Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                               const RowStatistics& statistics, double eps, DType result) const;
  /// Inputs in their own dtypes; `compute`: of the arithmetic.
  [[nodiscard]] Outputs backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                 const RowStatistics& statistics, double eps, const GradientRequest& request,
                                 DType compute) const;
  /// In plain ops, of tensors in the compute type; the result keeps it. `given` statistics are one per
  /// channel.
  [[nodiscard]] Tensor composed_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        const RowStatistics& given, double eps) const;
  /// Mean and biased variance of x's rows in plain ops, [rows].
  [[nodiscard]] RowStatistics composed_statistics(const Tensor& x) const;

 private:
  ChannelNorm(std::string_view op, const Shape& shape, std::int64_t groups);
  /// A parameter [C], shown along the channels of `blocked_`.
  [[nodiscard]] Tensor along_channels(const Tensor& parameter) const;
  /// The layout of x in one of the two memory formats.
  [[nodiscard]] kernels::ChannelLayout layout_in(MemoryFormat format) const;
  [[nodiscard]] Tensor sums_of(const Tensor& sums, DType dtype) const;

  std::int64_t channels_;
  kernels::ChannelLayout layout_;  ///< of a row-major x
  Shape blocked_;                  ///< [N, groups, channels of a group, values of a channel]
  Dims over_;                      ///< dims of it that are normalized together
};

}  // namespace mezzo::ops
