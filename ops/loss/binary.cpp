// binary_cross_entropy of probabilities and of logits: compositions.
#include "mezzo/ops/loss/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

using LossArgs = ForwardArgs<LossAttrs>;

/// Throws unless the weight is undefined, or floating and broadcasts to x's shape.
void require_weight(std::string_view op, const Tensor& weight, const Shape& shape) {
  if (!weight.defined()) return;
  require_floating(op, weight);
  static_cast<void>(expanded_view(op, weight, shape));
}

/// losses, times the weight where there is one.
Tensor weighted(const Tensor& losses, const Tensor& weight) {
  return weight.defined() ? losses * weight : losses;
}

// --- of probabilities. Inputs: x, target, weight

constexpr std::string_view kBce = "binary_cross_entropy";

/// On the CPU only: a GPU would have to wait for the answer.
void require_probabilities(const Tensor& x) {
  if (!x.device().is_cpu()) return;
  const Tensor count = sum(logical_or(lt(x, 0), gt(x, 1)));
  const std::int64_t outside = *static_cast<const std::int64_t*>(count.impl().data());
  if (outside == 0) return;
  throw ValueError(kBce, "probabilities in [0, 1]",
                   std::to_string(outside) + " of " + std::to_string(x.numel()) + " outside",
                   "pass logits to binary_cross_entropy_with_logits, or sigmoid(x)");
}

Outputs bce_composition(const LossArgs& args) {
  const DType result = loss_dtype(kBce, args), compute = compute_dtype(result);
  const Tensor x = input_as(args, 0, compute), target = input_as(args, 1, compute);
  // Logarithms of probabilities stop at -100, so that one wrong certainty does not make the loss infinite.
  const Tensor of_true = clamp(log(x), -100.0);
  const Tensor of_false = clamp(log1p(neg(x)), -100.0);
  const Tensor losses = (target - 1.0) * of_false - target * of_true;
  return to(reduced(weighted(losses, input_as(args, 2, compute)), args.attrs.reduction), result);
}
Outputs bce_forward(const LossArgs& args) {
  const Tensor& x = args.in(0);
  static_cast<void>(loss_dtype(kBce, args));
  require_same_shape(kBce, x, args.in(1));
  require_weight(kBce, args.in(2), x.shape());
  require_probabilities(x);
  return bce_composition(args);
}
/// Of x not through the composition: the contract bounds the quotient, not the logarithms' slopes.
Gradients bce_vjp(const VjpArgs<LossAttrs>& args) {
  Gradients gradients(3);
  if (args.needs(1) || args.needs(2)) gradients = decomposed(args);
  if (!args.needs(0)) return gradients;
  const DType compute = compute_dtype(args.out_dtype());
  const auto input = [&](std::size_t i) {
    const Tensor own = args.in(i);
    return own.defined() ? to(own, compute) : own;
  };
  const Tensor x = input(0), variance = clamp(x * (1.0 - x), 1e-12);  // before x - target: see kl_div
  const Tensor slope = (x - input(1)) / variance;
  const Tensor grad = to(args.grad(), compute) * reduction_scale(args.attrs.reduction, args.in_shape(0));
  gradients[0] = to(slope * weighted(grad, input(2)), args.wanted(0));
  return gradients;
}

std::vector<Sample<LossAttrs>> bce_samples() {
  const SampleInput x = op_samples::real({3, 5}, 0.1, 0.9);
  const SampleInput target = op_samples::real({3, 5}, 0, 1);
  return {{{x, target, op_samples::absent()}, {Reduction::mean}},
          {{x, target, op_samples::real({3, 5}, 0.5, 2)}, {Reduction::sum}},
          {{x, target, op_samples::real({5}, 0.5, 2)}, {Reduction::none}}};
}
constexpr Op<LossAttrs> bce_op{
    .info = {.name = kBce,
             .category = Category::banned,
             .banned_fix = "drop the sigmoid before it and call "
                           "binary_cross_entropy_with_logits",
             .optional_inputs = tensor_set(2)},
    .samples = bce_samples,
    .forward = bce_forward,
    .vjp = bce_vjp,
    .saves = {~0U, 0},
    .reference = bce_composition,
};

// --- of logits. Inputs: x, target, weight, pos_weight

constexpr std::string_view kLogits = "binary_cross_entropy_with_logits";

/// -(1 - t) logsigmoid(-x) - pos_weight t logsigmoid(x): no term can overflow or cancel another.
Outputs logits_composition(const LossArgs& args) {
  const DType result = loss_dtype(kLogits, args), compute = compute_dtype(result);
  const Tensor x = input_as(args, 0, compute), target = input_as(args, 1, compute);
  const Tensor positive = weighted(target * logsigmoid(x), input_as(args, 3, compute));
  const Tensor losses = neg((1.0 - target) * logsigmoid(neg(x)) + positive);
  return to(reduced(weighted(losses, input_as(args, 2, compute)), args.attrs.reduction), result);
}
Outputs logits_forward(const LossArgs& args) {
  static_cast<void>(loss_dtype(kLogits, args));
  require_same_shape(kLogits, args.in(0), args.in(1));
  for (const std::size_t i : {2, 3}) require_weight(kLogits, args.in(i), args.in(0).shape());
  return logits_composition(args);
}
std::vector<Sample<LossAttrs>> logits_samples() {
  const SampleInput x = op_samples::real({3, 5});
  const SampleInput target = op_samples::real({3, 5}, 0, 1);
  const SampleInput weight = op_samples::real({3, 5}, 0.5, 2);
  return {{{x, target, op_samples::absent(), op_samples::absent()}, {Reduction::mean}},
          {{x, target, weight, op_samples::absent()}, {Reduction::sum}},
          {{x, target, op_samples::absent(), op_samples::real({5}, 0.5, 2)}, {Reduction::none}}};
}
constexpr Op<LossAttrs> logits_op =
    fused_op<LossAttrs>(kLogits, Category::fp32, logits_samples, logits_forward, logits_composition,
                        kDecomposed, {~0U, 0}, tensor_set(2, 3));

const Registered binary_losses_registered{bce_op, logits_op};

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
