// Descriptors of group_norm and its backward op, which instance_norm uses too.
#include "mezzo/ops/norm/common.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::absent;
using op_samples::real;

constexpr std::string_view kName = "group_norm", kBackward = "group_norm_backward";

/// Inputs: x, weight, bias.
ChannelNorm checked(const ForwardArgs<GroupNormAttrs>& args, DType compute) {
  const Tensor& x = args.in(0);
  const ChannelNorm norm = ChannelNorm::grouped(kName, x.shape(), args.attrs.num_groups);
  const Shape channels{norm.channels()};
  require_parameter(kName, "a weight", args.in(1), channels, compute);
  require_parameter(kName, "a bias", args.in(2), channels, compute);
  // PyTorch's check, which counts the values of a group over the batch.
  if (x.numel() == args.attrs.num_groups) {
    throw ValueError(kName, "more than one value per group", to_string(x.shape()),
                     "one value less its mean is always 0: take fewer groups");
  }
  return norm;
}

Outputs forward(const ForwardArgs<GroupNormAttrs>& args) {
  const DType result = norm_dtype(kName, args.in(0), args.run_dtype);
  const ChannelNorm norm = checked(args, compute_dtype(result));
  return norm.forward(args.in(0), args.in(1), args.in(2), {}, args.attrs.eps, result);
}

Outputs reference(const ForwardArgs<GroupNormAttrs>& args) {
  const DType result = norm_dtype(kName, args.in(0), args.run_dtype), compute = compute_dtype(result);
  const Tensor y = checked(args, compute)
                       .composed_forward(input_as(args, 0, compute), input_as(args, 1, compute),
                                         input_as(args, 2, compute), {}, args.attrs.eps);
  return to(y, result);
}

/// Inputs: grad, x, weight.
struct Backward {
  explicit Backward(const ForwardArgs<GroupNormBackwardAttrs>& args)
      : request(request_of(kBackward, args)),
        compute(compute_dtype(promote(args.in(0).dtype(), args.in(1).dtype()))),
        norm(ChannelNorm::grouped(kBackward, args.in(1).shape(), args.attrs.num_groups)) {
    require_parameter(kBackward, "a weight", args.in(2), {norm.channels()}, compute);
  }
  GradientRequest request;
  DType compute;
  ChannelNorm norm;
};

Outputs backward_forward(const ForwardArgs<GroupNormBackwardAttrs>& args) {
  const Backward b(args);
  return b.norm.backward(args.in(0), args.in(1), args.in(2), {}, args.attrs.eps, b.request, b.compute);
}
Outputs backward_reference(const ForwardArgs<GroupNormBackwardAttrs>& args) {
  const Backward b(args);
  const auto forward = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return b.norm.composed_forward(x, weight, bias, {}, args.attrs.eps);
  };
  return composed_norm_gradients(input_as(args, 0, b.compute), input_as(args, 1, b.compute),
                                 input_as(args, 2, b.compute), {b.norm.channels()}, b.request, forward);
}

std::vector<Sample<GroupNormBackwardAttrs>> backward_samples() {
  const SampleInput x = real({2, 4, 3});
  return {{{x, x, real({4})}, {{}, {2}}},
          {{x, x, real({4})}, {{.input = false}, {4, 0.1}}},
          {{real({3, 6}), real({3, 6}), absent()}, {{.bias = false}, {2}}},
          {{real({2, 2, 17}), real({2, 2, 17}), real({2})}, {{.weight = false, .bias = false}, {1}}}};
}
constexpr Op<GroupNormBackwardAttrs> backward_op = gradient_op<GroupNormBackwardAttrs>(
    kBackward, backward_samples, backward_forward, backward_reference, tensor_set(2));

Gradients vjp(const VjpArgs<GroupNormAttrs>& args) {
  const GroupNormBackwardAttrs attrs{needed_gradients(args, 1, 2), args.attrs};
  const Tensor x = args.stored_in(0), weight = args.stored_in(1);
  return spread_gradients(attrs, group_norm_backward(args.grad(), x, weight, attrs), 3, 1);
}

std::vector<Sample<GroupNormAttrs>> group_samples() {
  return {{{real({2, 4, 3}), real({4}), real({4})}, {.num_groups = 2}},
          {{real({2, 3, 2, 2}), real({3}), absent()}, {.num_groups = 3, .eps = 0.1}},
          {{real({2, 2, 17}), absent(), real({2})}, {.num_groups = 1}},
          {{real({3, 6}), absent(), absent()}, {.num_groups = 2}}};
}
constexpr Op<GroupNormAttrs> group_op = fused_op<GroupNormAttrs>(
    kName, Category::fp32, group_samples, forward, reference, vjp, save_inputs(0, 1), tensor_set(1, 2));

const Registered group_norm_registered{backward_op, group_op};

}  // namespace

namespace ops {

Outputs group_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                            const GroupNormBackwardAttrs& attrs) {
  return bind(backward_op, {grad, x, weight}, attrs);
}

}  // namespace ops

Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  return bind(group_op, {x, weight, bias}, GroupNormAttrs{num_groups, eps});
}

}  // namespace mezzo
