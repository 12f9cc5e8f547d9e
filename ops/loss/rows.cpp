// cosine_embedding_loss and triplet_margin_loss: compositions over rows.
#include "mezzo/ops/loss/common.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::constant;
using op_samples::real;

// --- cosine_embedding_loss. Inputs: a, b, target

struct CosineEmbeddingAttrs {
  double margin = 0;
  Reduction reduction = Reduction::mean;
  MEZZO_FIELDS(CosineEmbeddingAttrs, margin, reduction)
};

void require_rows(std::string_view op, const Shape& a, const Shape& b, const Shape& target) {
  const std::size_t rank = target.size() + 1;
  if (rank <= 2 && a.size() == rank && b.size() == rank) return;
  throw ShapeError(op, "[N, D], [N, D] and targets [N], or [D], [D] and []",
                   to_string(a) + ", " + to_string(b) + " and " + to_string(target),
                   "pass one target per pair of rows");
}

Outputs cosine_forward(const ForwardArgs<CosineEmbeddingAttrs>& args) {
  constexpr std::string_view kName = "cosine_embedding_loss";
  constexpr double kEps = 1e-12;
  const DType result = floating_result(kName, args), compute = compute_dtype(result);
  require_rows(kName, args.in(0).shape(), args.in(1).shape(), args.in(2).shape());
  Shape rows = layout::broadcast(kName, args.in(0).shape(), args.in(1).shape());
  rows.pop_back();
  static_cast<void>(layout::broadcast(kName, rows, args.in(2).shape()));
  const Tensor a = input_as(args, 0, compute), b = input_as(args, 1, compute);
  const Tensor target = input_as(args, 2, compute);
  const Tensor squares = (sum(a * a, -1) + kEps) * (sum(b * b, -1) + kEps);
  const Tensor cosine = sum(a * b, -1) / sqrt(squares);
  const Tensor losses = where(eq(target, 1), 1.0 - cosine, 0.0) +
                        where(eq(target, -1), clamp(cosine - args.attrs.margin, 0.0), 0.0);
  return to(reduced(losses, args.attrs.reduction), result);
}
std::vector<Sample<CosineEmbeddingAttrs>> cosine_samples() {
  const SampleInput rows = real({4, 3}, 0.5, 2);
  return {{{real({4, 3}), real({4, 3}), constant({4}, 1, 1)}, {}},
          {{rows, rows, constant({4}, -1, -1)}, {.margin = 0.1, .reduction = Reduction::sum}},
          {{real({4, 3}), real({1, 3}), constant({4}, 1, 1)}, {.reduction = Reduction::none}},
          {{real({3}, 0.5, 2), real({3}, 0.5, 2), constant({}, -1, -1)}, {}}};
}
constexpr Op<CosineEmbeddingAttrs> cosine_op =
    composed_op<CosineEmbeddingAttrs>("cosine_embedding_loss", cosine_samples, cosine_forward);

// --- triplet_margin_loss. Inputs: anchor, positive, negative

Outputs triplet_forward(const ForwardArgs<TripletMarginLossAttrs>& args) {
  const TripletMarginLossAttrs& attrs = args.attrs;
  constexpr std::string_view kName = "triplet_margin_loss";
  const DType result = floating_result(kName, args), compute = compute_dtype(result);
  static_cast<void>(layout::broadcast(kName, layout::broadcast(kName, args.in(0).shape(), args.in(1).shape()),
                                      args.in(2).shape()));
  const Tensor anchor = input_as(args, 0, compute);
  const Tensor positive = input_as(args, 1, compute), negative = input_as(args, 2, compute);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return norm(a - b + attrs.eps, attrs.p, -1);
  };
  const Tensor near = distance(anchor, positive);
  Tensor far = distance(anchor, negative);
  if (attrs.swap) far = minimum(far, distance(positive, negative));
  return to(reduced(clamp(near - far + attrs.margin, 0.0), attrs.reduction), result);
}
std::vector<Sample<TripletMarginLossAttrs>> triplet_samples() {
  const SampleInput rows = real({4, 3}), away = real({4, 3}, 3, 5);
  return {{{rows, away, rows}, {}},
          {{rows, away, real({4, 3}, -9, -7)}, {.margin = 2, .p = 3, .eps = 1e-3, .swap = true}},
          {{rows, away, real({3}, 6, 7)}, {.margin = 9, .p = 1, .swap = true, .reduction = Reduction::none}},
          {{rows, away, real({4, 3}, 9, 11)}, {.reduction = Reduction::sum}}};
}
constexpr Op<TripletMarginLossAttrs> triplet_op =
    composed_op<TripletMarginLossAttrs>("triplet_margin_loss", triplet_samples, triplet_forward);

const Registered rows_registered{cosine_op, triplet_op};

}  // namespace

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             Reduction reduction) {
  return bind(cosine_op, {a, b, target}, CosineEmbeddingAttrs{margin, reduction});
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossAttrs& options) {
  return bind(triplet_op, {anchor, positive, negative}, options);
}

}  // namespace mezzo
