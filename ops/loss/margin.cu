// soft_margin_loss, hinge_embedding_loss and margin_ranking_loss.
#include "mezzo/ops/activation.h"
#include "mezzo/ops/loss/elementwise.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

namespace math = kernels::math;

/// log(1 + exp(-x target)), from terms that cannot overflow.
struct SoftMarginFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T z = -x * target;
    return MaximumFn{}(z, T(0)) + math::log1p(math::exp(-AbsFn{}(z)));
  }
};
struct SoftMarginSlopeFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    return -target * math::sigmoid(-x * target);
  }
};
/// x for targets of 1, the rest of the margin for -1, both for others.
struct HingeEmbeddingFn {
  double margin;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T near = math::detail::select(target != T(-1), x, T(0));
    const T far = math::detail::select(target != T(1), MaximumFn{}(T(margin) - x, T(0)), T(0));
    return near + far;
  }
};
struct HingeEmbeddingSlopeFn {
  double margin;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T near = math::detail::select(target != T(-1), T(1), T(0));
    const T far = math::detail::select((target != T(1)) & (T(margin) - x >= T(0)), T(-1), T(0));
    return near + far;
  }
};
/// max(0, margin - order (a - b)).
struct MarginRankingFn {
  double margin;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b, T order) const {
    return MaximumFn{}(T(margin) - order * (a - b), T(0));
  }
};
using op_samples::constant;
using op_samples::real;
using op_samples::smooth;

struct SoftMargin : ElementwiseLoss {
  using Attrs = LossAttrs;
  static constexpr std::string_view kName = "soft_margin_loss", kBackwardName = "soft_margin_loss_backward";
  static auto loss(const Attrs& /*attrs*/) { return SoftMarginFn{}; }
  static auto slope(const Attrs& /*attrs*/) { return SoftMarginSlopeFn{}; }
  static Tensor losses(const Attrs& /*attrs*/, const Tensor& x, const Tensor& target) {
    return neg(logsigmoid(x * target));
  }
  static std::vector<Sample<Attrs>> samples() {
    return {{{smooth({3, 5}), smooth({3, 5})}, {Reduction::mean}},
            {{smooth({3, 5}), smooth({5})}, {Reduction::sum}},
            {{smooth({3, 5}), smooth({3, 1})}, {Reduction::none}}};
  }
};

/// margin_ranking_loss has the same options.
struct MarginAttrs {
  double margin = 1;
  Reduction reduction = Reduction::mean;
  MEZZO_FIELDS(MarginAttrs, margin, reduction)
};

struct HingeEmbedding : ElementwiseLoss {
  using Attrs = MarginAttrs;
  static constexpr std::string_view kName = "hinge_embedding_loss",
                                    kBackwardName = "hinge_embedding_loss_backward";
  static auto loss(const Attrs& attrs) { return HingeEmbeddingFn{attrs.margin}; }
  static auto slope(const Attrs& attrs) { return HingeEmbeddingSlopeFn{attrs.margin}; }
  static Tensor losses(const Attrs& attrs, const Tensor& x, const Tensor& target) {
    const Tensor far = clamp(attrs.margin - x, 0.0);
    return where(ne(target, -1), x, 0.0) + where(ne(target, 1), far, 0.0);
  }
  static std::vector<Sample<Attrs>> samples() {
    return {{{smooth({3, 5}, 1), constant({3, 5}, 1, 1)}, {1, Reduction::mean}},
            {{smooth({3, 5}, 0.5), constant({5}, -1, -1)}, {0.5, Reduction::sum}},
            {{smooth({3, 5}, 1), constant({3, 1}, 0.1, 0.9)}, {1, Reduction::none}}};
  }
};

// --- margin_ranking_loss. Inputs: a, b, target

constexpr std::string_view kRanking = "margin_ranking_loss";

Outputs ranking_forward(const ForwardArgs<MarginAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1), &target = args.in(2);
  const DType result = floating_result(kRanking, args);
  const Shape shape =
      layout::broadcast(kRanking, layout::broadcast(kRanking, a.shape(), b.shape()), target.shape());
  return reduced_loss<3>(kRanking, MarginRankingFn{args.attrs.margin}, {&a, &b, &target}, shape,
                         args.attrs.reduction, result);
}
Outputs ranking_reference(const ForwardArgs<MarginAttrs>& args) {
  const DType result = floating_result(kRanking, args), compute = compute_dtype(result);
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
constexpr Op<MarginAttrs> ranking_op = fused_op<MarginAttrs>(
    kRanking, Category::fp32, ranking_samples, ranking_forward, ranking_reference, kDecomposed, {~0U, 0});

const Registered margin_registered{kElementwiseLoss<SoftMargin>, kElementwiseLossBackward<SoftMargin>,
                                   kElementwiseLoss<HingeEmbedding>, kElementwiseLossBackward<HingeEmbedding>,
                                   ranking_op};

}  // namespace

Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return bind(kElementwiseLoss<SoftMargin>, {x, target}, LossAttrs{reduction});
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin, Reduction reduction) {
  return bind(kElementwiseLoss<HingeEmbedding>, {x, target}, MarginAttrs{margin, reduction});
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                           Reduction reduction) {
  return bind(ranking_op, {a, b, target}, MarginAttrs{margin, reduction});
}

}  // namespace mezzo
