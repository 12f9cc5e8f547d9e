// kl_div and poisson_nll_loss.
#include "mezzo/ops/loss/elementwise.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

namespace math = kernels::math;

/// Of a log-probability and a probability, or its logarithm.
struct KlDivFn {
  bool log_target;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    if (log_target) return math::exp(target) * (target - x);
    return math::detail::select(target == T(0), T(0), target * math::log(target)) - target * x;
  }
};
struct KlDivSlopeFn {
  bool log_target;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T /*x*/, T target) const {
    return log_target ? -math::exp(target) : -target;
  }
};
/// `full` adds Stirling's approximation of log(target!) for targets above 1.
struct PoissonNllFn {
  bool log_input, full;
  double eps;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    T loss = log_input ? math::exp(x) - target * x : x - target * math::log(x + T(eps));
    if (full) {
      constexpr double kTwoPi = 6.283185307179586;
      const T term = target * math::log(target) - target + T(0.5) * math::log(T(kTwoPi) * target);
      loss += math::detail::select(target > T(1), term, T(0));
    }
    return loss;
  }
};
struct PoissonNllSlopeFn {
  bool log_input;
  double eps;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    return log_input ? math::exp(x) - target : T(1) - target / (x + T(eps));
  }
};
using op_samples::real;

struct KlDivAttrs {
  KlDivReduction reduction = KlDivReduction::mean;
  bool log_target = false;
  MEZZO_FIELDS(KlDivAttrs, reduction, log_target)
};

struct KlDiv : ElementwiseLoss {
  using Attrs = KlDivAttrs;
  static constexpr std::string_view kName = "kl_div", kBackwardName = "kl_div_backward";
  static Reduction reduction(const Attrs& attrs) {
    if (attrs.reduction == KlDivReduction::none) return Reduction::none;
    return attrs.reduction == KlDivReduction::mean ? Reduction::mean : Reduction::sum;
  }
  static void check(const Attrs& attrs, const Shape& x) {
    if (attrs.reduction != KlDivReduction::batchmean || !x.empty()) return;
    throw ShapeError(kName, "an input with a batch dim for batchmean", "[]", "use the reduction sum");
  }
  static double factor(const Attrs& attrs, const Shape& x) {
    if (attrs.reduction != KlDivReduction::batchmean) return 1;
    return 1.0 / static_cast<double>(x[0]);
  }
  static auto loss(const Attrs& attrs) { return KlDivFn{attrs.log_target}; }
  static auto slope(const Attrs& attrs) { return KlDivSlopeFn{attrs.log_target}; }
  static Tensor losses(const Attrs& attrs, const Tensor& x, const Tensor& target) {
    if (attrs.log_target) return exp(target) * (target - x);
    // A statement for each: in which order an operator's operands are recorded is the compiler's choice, and
    // so would be the order in which their gradients are added up.
    const Tensor mixed = target * x;
    const Tensor own = log(where(eq(target, 0), 1.0, target));
    return target * own - mixed;
  }
  static std::vector<Sample<Attrs>> samples() {
    return {{{real({3, 5}, -3, 0), real({3, 5}, 0.1, 1)}, {}},
            {{real({3, 5}, -3, 0), real({5}, -3, 0)}, {KlDivReduction::sum, true}},
            {{real({3, 5}, -3, 0), real({3, 1}, 0.1, 1)}, {KlDivReduction::none, false}},
            {{real({3, 5}, -3, 0), real({3, 5}, 0.1, 1)}, {KlDivReduction::batchmean, false}}};
  }
};

struct PoissonNll : ElementwiseLoss {
  using Attrs = PoissonNllLossAttrs;
  static constexpr std::string_view kName = "poisson_nll_loss", kBackwardName = "poisson_nll_loss_backward";
  static auto loss(const Attrs& attrs) { return PoissonNllFn{attrs.log_input, attrs.full, attrs.eps}; }
  static auto slope(const Attrs& attrs) { return PoissonNllSlopeFn{attrs.log_input, attrs.eps}; }
  static Tensor losses(const Attrs& attrs, const Tensor& x, const Tensor& target) {
    const Tensor of_target = target * (attrs.log_input ? x : log(x + attrs.eps));
    const Tensor losses = (attrs.log_input ? exp(x) : x) - of_target;
    if (!attrs.full) return losses;
    constexpr double kTwoPi = 6.283185307179586;
    const Tensor large = gt(target, 1), t = where(large, target, 1.0), root = 0.5 * log(t * kTwoPi);
    const Tensor own = log(t);
    return losses + where(large, t * own - t + root, 0.0);
  }
  static std::vector<Sample<Attrs>> samples() {
    return {{{real({3, 5}), real({3, 5}, 0, 3)}, {}},
            {{real({3, 5}, 0.5, 2), real({5}, 1.1, 3)},
             {.log_input = false, .full = true, .eps = 1e-3, .reduction = Reduction::sum}},
            {{real({3, 5}), real({3, 1}, 0, 0.9)}, {.full = true, .reduction = Reduction::none}}};
  }
};

const Registered likelihood_registered{kElementwiseLoss<KlDiv>, kElementwiseLossBackward<KlDiv>,
                                       kElementwiseLoss<PoissonNll>, kElementwiseLossBackward<PoissonNll>};

}  // namespace

Tensor kl_div(const Tensor& x, const Tensor& target, KlDivReduction reduction, bool log_target) {
  return bind(kElementwiseLoss<KlDiv>, {x, target}, KlDivAttrs{reduction, log_target});
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, const PoissonNllLossAttrs& options) {
  return bind(kElementwiseLoss<PoissonNll>, {x, target}, options);
}

}  // namespace mezzo
