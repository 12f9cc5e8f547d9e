// kl_div and poisson_nll_loss: compositions.
#include "mezzo/ops/loss/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::real;

// --- kl_div. Inputs: x, target

struct KlDivAttrs {
  KlDivReduction reduction = KlDivReduction::mean;
  bool log_target = false;
  MEZZO_FIELDS(KlDivAttrs, reduction, log_target)
};

Outputs kl_div_forward(const ForwardArgs<KlDivAttrs>& args) {
  constexpr std::string_view kName = "kl_div";
  const KlDivAttrs& attrs = args.attrs;
  const Shape& shape = args.in(0).shape();
  const bool by_batch = attrs.reduction == KlDivReduction::batchmean;
  if (by_batch && shape.empty()) {
    throw ShapeError(kName, "an input with a batch dim for batchmean", "[]", "use the reduction sum");
  }
  const Reduction reduction = attrs.reduction == KlDivReduction::none   ? Reduction::none
                              : attrs.reduction == KlDivReduction::mean ? Reduction::mean
                                                                        : Reduction::sum;
  const auto losses = [&](const Tensor& x, const Tensor& target) {
    if (attrs.log_target) return exp(target) * (target - x);
    // A statement for each: in which order an operator's operands are recorded is the compiler's choice, and
    // so would be the order in which their gradients are added up.
    const Tensor mixed = target * x;
    const Tensor own = log(where(eq(target, 0), 1.0, target));
    return target * own - mixed;
  };
  return elementwise_loss(kName, args, reduction, losses,
                          by_batch ? 1.0 / static_cast<double>(shape[0]) : 1.0);
}
std::vector<Sample<KlDivAttrs>> kl_div_samples() {
  return {{{real({3, 5}, -3, 0), real({3, 5}, 0.1, 1)}, {}},
          {{real({3, 5}, -3, 0), real({5}, -3, 0)}, {KlDivReduction::sum, true}},
          {{real({3, 5}, -3, 0), real({3, 1}, 0.1, 1)}, {KlDivReduction::none, false}},
          {{real({3, 5}, -3, 0), real({3, 5}, 0.1, 1)}, {KlDivReduction::batchmean, false}}};
}
constexpr Op<KlDivAttrs> kl_div_op = composed_op<KlDivAttrs>("kl_div", kl_div_samples, kl_div_forward);

// --- poisson_nll_loss. Inputs: x, target

Outputs poisson_forward(const ForwardArgs<PoissonNllLossAttrs>& args) {
  const PoissonNllLossAttrs& attrs = args.attrs;
  return elementwise_loss(
      "poisson_nll_loss", args, attrs.reduction, [&](const Tensor& x, const Tensor& target) {
        const Tensor of_target = target * (attrs.log_input ? x : log(x + attrs.eps));
        const Tensor losses = (attrs.log_input ? exp(x) : x) - of_target;
        if (!attrs.full) return losses;
        // Stirling's approximation of log(target!) for targets above 1.
        constexpr double kTwoPi = 6.283185307179586;
        const Tensor large = gt(target, 1), t = where(large, target, 1.0), root = 0.5 * log(t * kTwoPi);
        const Tensor own = log(t);
        return losses + where(large, t * own - t + root, 0.0);
      });
}
std::vector<Sample<PoissonNllLossAttrs>> poisson_samples() {
  return {{{real({3, 5}), real({3, 5}, 0, 3)}, {}},
          {{real({3, 5}, 0.5, 2), real({5}, 1.1, 3)},
           {.log_input = false, .full = true, .eps = 1e-3, .reduction = Reduction::sum}},
          {{real({3, 5}), real({3, 1}, 0, 0.9)}, {.full = true, .reduction = Reduction::none}}};
}
constexpr Op<PoissonNllLossAttrs> poisson_op =
    composed_op<PoissonNllLossAttrs>("poisson_nll_loss", poisson_samples, poisson_forward);

const Registered likelihood_registered{kl_div_op, poisson_op};

}  // namespace

Tensor kl_div(const Tensor& x, const Tensor& target, KlDivReduction reduction, bool log_target) {
  return bind(kl_div_op, {x, target}, KlDivAttrs{reduction, log_target});
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, const PoissonNllLossAttrs& options) {
  return bind(poisson_op, {x, target}, options);
}

}  // namespace mezzo
