// binary_cross_entropy of probabilities and of logits, and their gradients in one pass.
#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/ops/activation.h"
#include "mezzo/ops/loss/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

namespace math = kernels::math;

/// Logarithms of probabilities stop at -100, so that one wrong certainty does not make the loss infinite.
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T bounded_log(T log) {
  return MaximumFn{}(log, T(-100));
}
struct BinaryCrossEntropyFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target, T weight) const {
    const T of_false = bounded_log(math::log1p(-x));
    const T of_true = bounded_log(math::log(x));
    return weight * ((target - T(1)) * of_false - target * of_true);
  }
};
struct BinaryCrossEntropyGradientFn {
  double scale;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, T target, T weight) const {
    const T variance = MaximumFn{}(x * (T(1) - x), T(1e-12));
    return (x - target) / variance * (T(scale) * grad * weight);
  }
};
/// (1 - t) softplus(x) + pos_weight t softplus(-x): no term can overflow or cancel another.
struct LogitCrossEntropyFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target, T weight, T pos_weight) const {
    const T tail = math::log1p(math::exp(-AbsFn{}(x)));
    const T of_false = MaximumFn{}(x, T(0)) + tail;
    const T of_true = MaximumFn{}(-x, T(0)) + tail;
    return weight * ((T(1) - target) * of_false + pos_weight * target * of_true);
  }
};
struct LogitCrossEntropyGradientFn {
  double scale;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, T target, T weight, T pos_weight) const {
    const T slope = (T(1) - target) * math::sigmoid(x) - pos_weight * target * math::sigmoid(-x);
    return slope * (T(scale) * grad * weight);
  }
};

using LossArgs = ForwardArgs<LossAttrs>;
using LossBackwardAttrs = WithDType<LossAttrs>;
using LossBackwardArgs = ForwardArgs<LossBackwardAttrs>;

constexpr std::string_view kBce = "binary_cross_entropy";
constexpr std::string_view kBackwardName = "binary_cross_entropy_backward";
constexpr std::string_view kLogitsName = "binary_cross_entropy_with_logits";
constexpr std::string_view kLogitsBackwardName = "binary_cross_entropy_with_logits_backward";

/// 1 where x is a number outside [0, 1].
MEZZO_FUNCTOR(OutsideFn, T, (T x), ((x < T(0)) | (x > T(1))) ? T(1) : T(0));

/// On the CPU only: a GPU would have to wait for the answer.
void require_probabilities(const Tensor& x) {
  if (!x.device().is_cpu()) return;
  double outside = 0;
  const kernels::View count{&outside, DType::f64, {}, {}};
  kernels::map_reduce(x.device(), OutsideFn{}, count, std::array{view_of(x)}, compute_dtype(x.dtype()));
  if (outside == 0) return;
  throw ValueError(
      kBce, "probabilities in [0, 1]",
      std::to_string(static_cast<std::int64_t>(outside)) + " of " + std::to_string(x.numel()) + " outside",
      "pass logits to binary_cross_entropy_with_logits, or sigmoid(x)");
}

// --- of probabilities. Inputs: x, target, weight

Outputs bce_forward(const LossArgs& args) {
  const Tensor& x = args.in(0);
  const Tensor& target = args.in(1);
  const DType result = loss_dtype(kBce, args);
  require_same_shape(kBce, x, target);
  require_probabilities(x);
  const Tensor weight = weight_or_one(args.in(2), x);
  return reduced_loss<3>(kBce, BinaryCrossEntropyFn{}, {&x, &target, &weight}, x.shape(),
                         args.attrs.reduction, result);
}

Outputs bce_reference(const LossArgs& args) {
  const DType result = loss_dtype(kBce, args);
  const Tensor x = input_as(args, 0, compute_dtype(result));
  const Tensor target = input_as(args, 1, compute_dtype(result));
  const Tensor of_true = clamp(log(x), -100.0);
  const Tensor of_false = clamp(log(1.0 - x), -100.0);
  const Tensor losses = (target - 1.0) * of_false - target * of_true;
  const Tensor weight = input_as(args, 2, compute_dtype(result));
  return to(reduced(weight.defined() ? losses * weight : losses, args.attrs.reduction), result);
}

/// Inputs: grad, x, target, weight.
Outputs bce_backward_forward(const LossBackwardArgs& args) {
  const Tensor& x = args.in(1);
  const Tensor& target = args.in(2);
  require_same_shape(kBackwardName, x, target);
  const Tensor weight = weight_or_one(args.in(3), x);
  const BinaryCrossEntropyGradientFn gradient{reduction_scale(args.attrs.reduction, x.shape())};
  return loss_gradient<3>(kBackwardName, gradient, args.in(0), {&x, &target, &weight}, x.shape(), args.attrs);
}

/// Not through the loss's own composition: the contract bounds the quotient, not the logarithms' slopes.
Outputs bce_backward_reference(const LossBackwardArgs& args) {
  const DType compute = compute_dtype(args.in(0).dtype());
  const Tensor x = input_as(args, 1, compute), target = input_as(args, 2, compute);
  const Tensor variance = clamp(x * (1.0 - x), 1e-12);  // before x - target: see kl_div
  const Tensor slope = (x - target) / variance;
  const Tensor grad = input_as(args, 0, compute) * reduction_scale(args.attrs.reduction, x.shape());
  const Tensor weighted = args.in(3).defined() ? grad * input_as(args, 3, compute) : grad;
  return to(slope * weighted, args.attrs.dtype.value_or(args.in(0).dtype()));
}

std::vector<Sample<LossAttrs>> bce_samples() {
  const SampleInput x = op_samples::real({3, 5}, 0.1, 0.9);
  const SampleInput target = op_samples::real({3, 5}, 0, 1);
  return {{{x, target, op_samples::absent()}, {Reduction::mean}},
          {{x, target, op_samples::real({3, 5}, 0.5, 2)}, {Reduction::sum}},
          {{x, target, op_samples::real({5}, 0.5, 2)}, {Reduction::none}}};
}
Shape binary_loss_shape(const Sample<LossAttrs>& call) {
  return call.attrs.reduction == Reduction::none ? call.inputs[0].shape : Shape{};
}
std::vector<Sample<LossBackwardAttrs>> bce_backward_samples() {
  return loss_gradient_samples(bce_samples(), binary_loss_shape);
}
constexpr Op<LossBackwardAttrs> bce_backward_op = gradient_op<LossBackwardAttrs>(
    kBackwardName, bce_backward_samples, bce_backward_forward, bce_backward_reference, tensor_set(3));

constexpr Op<LossAttrs> bce_op{
    .info = {.name = kBce,
             .category = Category::banned,
             .banned_fix = "drop the sigmoid before it and call "
                           "binary_cross_entropy_with_logits",
             .optional_inputs = tensor_set(2)},
    .samples = bce_samples,
    .forward = bce_forward,
    .vjp = loss_vjp<bce_backward_op, LossAttrs>,
    .saves = {~0U, 0},
    .reference = bce_reference,
};

// --- of logits. Inputs: x, target, weight, pos_weight

Outputs logits_forward(const LossArgs& args) {
  const Tensor& x = args.in(0);
  const Tensor& target = args.in(1);
  const DType result = loss_dtype(kLogitsName, args);
  require_same_shape(kLogitsName, x, target);
  const Tensor weight = weight_or_one(args.in(2), x);
  const Tensor pos_weight = weight_or_one(args.in(3), x);
  return reduced_loss<4>(kLogitsName, LogitCrossEntropyFn{}, {&x, &target, &weight, &pos_weight}, x.shape(),
                         args.attrs.reduction, result);
}

Outputs logits_reference(const LossArgs& args) {
  const DType result = loss_dtype(kLogitsName, args);
  const DType compute = compute_dtype(result);
  const Tensor x = input_as(args, 0, compute);
  const Tensor target = input_as(args, 1, compute);
  const Tensor weight = input_as(args, 2, compute);
  const Tensor pos_weight = input_as(args, 3, compute);
  const Tensor of_true = target * logsigmoid(x);
  const Tensor positive = pos_weight.defined() ? of_true * pos_weight : of_true;
  const Tensor losses = neg((1.0 - target) * logsigmoid(neg(x)) + positive);
  return to(reduced(weight.defined() ? losses * weight : losses, args.attrs.reduction), result);
}

/// Inputs: grad, x, target, weight, pos_weight.
Outputs logits_backward_forward(const LossBackwardArgs& args) {
  const Tensor& x = args.in(1);
  const Tensor& target = args.in(2);
  require_same_shape(kLogitsBackwardName, x, target);
  const Tensor weight = weight_or_one(args.in(3), x);
  const Tensor pos_weight = weight_or_one(args.in(4), x);
  const LogitCrossEntropyGradientFn gradient{reduction_scale(args.attrs.reduction, x.shape())};
  return loss_gradient<4>(kLogitsBackwardName, gradient, args.in(0), {&x, &target, &weight, &pos_weight},
                          x.shape(), args.attrs);
}

std::vector<Sample<LossAttrs>> logits_samples() {
  const SampleInput x = op_samples::real({3, 5});
  const SampleInput target = op_samples::real({3, 5}, 0, 1);
  const SampleInput weight = op_samples::real({3, 5}, 0.5, 2);
  return {{{x, target, op_samples::absent(), op_samples::absent()}, {Reduction::mean}},
          {{x, target, weight, op_samples::absent()}, {Reduction::sum}},
          {{x, target, op_samples::absent(), op_samples::real({5}, 0.5, 2)}, {Reduction::none}}};
}
std::vector<Sample<LossBackwardAttrs>> logits_backward_samples() {
  return loss_gradient_samples(logits_samples(), binary_loss_shape);
}
constexpr Op<LossBackwardAttrs> logits_backward_op =
    gradient_op<LossBackwardAttrs>(kLogitsBackwardName, logits_backward_samples, logits_backward_forward,
                                   loss_gradient_reference<logits_reference, LossAttrs>, tensor_set(3, 4));
constexpr Op<LossAttrs> logits_op =
    fused_op<LossAttrs>(kLogitsName, Category::fp32, logits_samples, logits_forward, logits_reference,
                        loss_vjp<logits_backward_op, LossAttrs>, {~0U, 0}, tensor_set(2, 3));

const Registered binary_losses_registered{bce_backward_op, bce_op, logits_backward_op, logits_op};

}  // namespace

Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                            Reduction reduction) {
  return bind(bce_op, {x, target, weight}, LossAttrs{reduction});
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight,
                                        const Tensor& pos_weight, Reduction reduction) {
  return bind(logits_op, {x, target, weight, pos_weight}, LossAttrs{reduction});
}

}  // namespace mezzo
