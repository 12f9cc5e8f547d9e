// soft_margin_loss, hinge_embedding_loss and margin_ranking_loss: compositions.
#include "mezzo/ops/loss/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::constant;
using op_samples::real;
using op_samples::smooth;

// --- soft_margin_loss. Inputs: x, target

/// log(1 + exp(-x target)), from terms that cannot overflow.
Outputs soft_margin_forward(const ForwardArgs<LossAttrs>& args) {
  return elementwise_loss("soft_margin_loss", args, args.attrs.reduction,
                          [](const Tensor& x, const Tensor& target) { return neg(logsigmoid(x * target)); });
}
std::vector<Sample<LossAttrs>> soft_margin_samples() {
  return {{{smooth({3, 5}), smooth({3, 5})}, {Reduction::mean}},
          {{smooth({3, 5}), smooth({5})}, {Reduction::sum}},
          {{smooth({3, 5}), smooth({3, 1})}, {Reduction::none}}};
}
constexpr Op<LossAttrs> soft_margin_op =
    composed_op<LossAttrs>("soft_margin_loss", soft_margin_samples, soft_margin_forward);

// --- hinge_embedding_loss. Inputs: x, target

/// margin_ranking_loss has the same options.
struct MarginAttrs {
  double margin = 1;
  Reduction reduction = Reduction::mean;
  MEZZO_FIELDS(MarginAttrs, margin, reduction)
};

/// x for targets of 1, the rest of the margin for -1, both for others.
Outputs hinge_forward(const ForwardArgs<MarginAttrs>& args) {
  return elementwise_loss("hinge_embedding_loss", args, args.attrs.reduction,
                          [&](const Tensor& x, const Tensor& target) {
                            const Tensor far = clamp(args.attrs.margin - x, 0.0);
                            return where(ne(target, -1), x, 0.0) + where(ne(target, 1), far, 0.0);
                          });
}
std::vector<Sample<MarginAttrs>> hinge_samples() {
  return {{{smooth({3, 5}, 1), constant({3, 5}, 1, 1)}, {1, Reduction::mean}},
          {{smooth({3, 5}, 0.5), constant({5}, -1, -1)}, {0.5, Reduction::sum}},
          {{smooth({3, 5}, 1), constant({3, 1}, 0.1, 0.9)}, {1, Reduction::none}}};
}
constexpr Op<MarginAttrs> hinge_op =
    composed_op<MarginAttrs>("hinge_embedding_loss", hinge_samples, hinge_forward);

// --- margin_ranking_loss. Inputs: a, b, target

/// max(0, margin - target (a - b)).
Outputs ranking_forward(const ForwardArgs<MarginAttrs>& args) {
  constexpr std::string_view kName = "margin_ranking_loss";
  const DType result = floating_result(kName, args), compute = compute_dtype(result);
  static_cast<void>(layout::broadcast(kName, layout::broadcast(kName, args.in(0).shape(), args.in(1).shape()),
                                      args.in(2).shape()));
  const Tensor difference = input_as(args, 0, compute) - input_as(args, 1, compute);
  const Tensor losses = clamp(args.attrs.margin - input_as(args, 2, compute) * difference, 0.0);
  return to(reduced(losses, args.attrs.reduction), result);
}
std::vector<Sample<MarginAttrs>> ranking_samples() {
  const SampleInput order = constant({5}, 1, 1);
  return {{{real({5}), real({5}, 3, 5), order}, {0, Reduction::mean}},
          {{real({3, 5}), real({5}, 3, 5), order}, {0.5, Reduction::none}},
          {{real({5}, 3, 5), real({5}), real({3, 1}, 0.6, 1)}, {0.5, Reduction::sum}}};
}
constexpr Op<MarginAttrs> ranking_op =
    composed_op<MarginAttrs>("margin_ranking_loss", ranking_samples, ranking_forward);

const Registered margin_registered{soft_margin_op, hinge_op, ranking_op};

}  // namespace

Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return bind(soft_margin_op, {x, target}, LossAttrs{reduction});
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin, Reduction reduction) {
  return bind(hinge_op, {x, target}, MarginAttrs{margin, reduction});
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                           Reduction reduction) {
  return bind(ranking_op, {a, b, target}, MarginAttrs{margin, reduction});
}

}  // namespace mezzo
