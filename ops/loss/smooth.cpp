// smooth_l1_loss and huber_loss: quadratic near the target, linear beyond. Compositions.
#include "mezzo/ops/loss/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::real;

/// `linear` where the distance reaches the limit, factor * difference^2 within. The square never sees what is
/// beyond: where that is infinite, 0 times it would be NaN in the gradient.
Tensor joined(const Tensor& distance, double limit, const Tensor& linear, const Tensor& difference,
              double factor) {
  const Tensor beyond = ge(distance, limit);
  return where(beyond, linear, square(where(beyond, 0, difference)) * factor);
}

// --- smooth_l1_loss. Inputs: x, target

struct SmoothL1Attrs {
  Reduction reduction = Reduction::mean;
  double beta = 1;
  MEZZO_FIELDS(SmoothL1Attrs, reduction, beta)
};

Outputs smooth_l1_forward(const ForwardArgs<SmoothL1Attrs>& args) {
  constexpr std::string_view kName = "smooth_l1_loss";
  const double beta = args.attrs.beta;
  if (!(beta >= 0))
    throw ValueError(kName, "beta >= 0", number_text(beta), "pass where the loss becomes linear");
  return elementwise_loss(kName, args, args.attrs.reduction, [&](const Tensor& x, const Tensor& target) {
    const Tensor difference = x - target;
    Tensor distance = abs(difference);
    if (beta == 0) return distance;
    return joined(distance, beta, distance - 0.5 * beta, difference, 0.5 / beta);
  });
}
std::vector<Sample<SmoothL1Attrs>> smooth_l1_samples() {
  // Within beta, beyond it, and with no beta.
  return {{{real({3, 5}, 0, 0.4), real({3, 5}, 0.5, 0.9)}, {}},
          {{real({3, 5}, 3, 5), real({5})}, {Reduction::sum, 0.8}},
          {{real({3, 5}), real({3, 1}, 3, 5)}, {Reduction::none, 0}},
          {{real({3, 5}), real({3, 5})}, {Reduction::none, 6}}};
}
constexpr Op<SmoothL1Attrs> smooth_l1_op =
    composed_op<SmoothL1Attrs>("smooth_l1_loss", smooth_l1_samples, smooth_l1_forward);

// --- huber_loss. Inputs: x, target

struct HuberAttrs {
  Reduction reduction = Reduction::mean;
  double delta = 1;
  MEZZO_FIELDS(HuberAttrs, reduction, delta)
};

Outputs huber_forward(const ForwardArgs<HuberAttrs>& args) {
  constexpr std::string_view kName = "huber_loss";
  const double delta = args.attrs.delta;
  if (!(delta > 0))
    throw ValueError(kName, "delta > 0", number_text(delta), "pass where the loss becomes linear");
  return elementwise_loss(kName, args, args.attrs.reduction, [&](const Tensor& x, const Tensor& target) {
    const Tensor difference = x - target, distance = abs(difference);
    return joined(distance, delta, (distance - 0.5 * delta) * delta, difference, 0.5);
  });
}
std::vector<Sample<HuberAttrs>> huber_samples() {
  return {{{real({3, 5}, 0, 0.4), real({3, 5}, 0.5, 0.9)}, {}},
          {{real({3, 5}, 3, 5), real({5})}, {Reduction::sum, 0.8}},
          {{real({3, 5}), real({3, 1})}, {Reduction::none, 6}}};
}
constexpr Op<HuberAttrs> huber_op = composed_op<HuberAttrs>("huber_loss", huber_samples, huber_forward);

const Registered smooth_registered{smooth_l1_op, huber_op};

}  // namespace

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction, double beta) {
  return bind(smooth_l1_op, {x, target}, SmoothL1Attrs{reduction, beta});
}

Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction, double delta) {
  return bind(huber_op, {x, target}, HuberAttrs{reduction, delta});
}

}  // namespace mezzo
