// smooth_l1_loss and huber_loss.
#include "mezzo/ops/loss/elementwise.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

namespace math = kernels::math;

/// Quadratic within beta of the target, linear beyond.
struct SmoothL1Fn {
  double beta;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T distance = AbsFn{}(x - target), limit = T(beta);
    return math::detail::select(distance < limit, distance * distance * T(0.5) / limit,
                                distance - T(0.5) * limit);
  }
};
struct SmoothL1SlopeFn {
  double beta;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T difference = x - target, limit = T(beta);
    // A difference that is not beyond may be NaN, and stays. Without a limit the loss is l1's.
    const bool beyond = (AbsFn{}(difference) >= limit) | (limit == T(0));
    return math::detail::select(beyond, SignFn{}(difference), difference / limit);
  }
};
struct HuberFn {
  double delta;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T distance = AbsFn{}(x - target), limit = T(delta);
    return math::detail::select(distance < limit, distance * distance * T(0.5),
                                (distance - T(0.5) * limit) * limit);
  }
};
struct HuberSlopeFn {
  double delta;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T difference = x - target, limit = T(delta);
    return math::detail::select(AbsFn{}(difference) >= limit, SignFn{}(difference)*limit, difference);
  }
};
using op_samples::real;

/// `linear` where the distance reaches the limit, factor * difference^2 within. The square never sees what is
/// beyond: where that is infinite, 0 times it would be NaN in the gradient.
Tensor joined(const Tensor& distance, double limit, const Tensor& linear, const Tensor& difference,
              double factor) {
  const Tensor beyond = ge(distance, limit);
  return where(beyond, linear, square(where(beyond, 0, difference)) * factor);
}

struct SmoothL1Attrs {
  Reduction reduction = Reduction::mean;
  double beta = 1;
  MEZZO_FIELDS(SmoothL1Attrs, reduction, beta)
};

struct SmoothL1 : ElementwiseLoss {
  using Attrs = SmoothL1Attrs;
  static constexpr std::string_view kName = "smooth_l1_loss", kBackwardName = "smooth_l1_loss_backward";
  static void check(const Attrs& attrs, const Shape& /*x*/) {
    if (attrs.beta >= 0) return;
    throw ValueError(kName, "beta >= 0", number_text(attrs.beta), "pass where the loss becomes linear");
  }
  static auto loss(const Attrs& attrs) { return SmoothL1Fn{attrs.beta}; }
  static auto slope(const Attrs& attrs) { return SmoothL1SlopeFn{attrs.beta}; }
  static Tensor losses(const Attrs& attrs, const Tensor& x, const Tensor& target) {
    const Tensor difference = x - target;
    Tensor distance = abs(difference);
    if (attrs.beta == 0) return distance;
    return joined(distance, attrs.beta, distance - 0.5 * attrs.beta, difference, 0.5 / attrs.beta);
  }
  static std::vector<Sample<Attrs>> samples() {
    // Within beta, beyond it, and with no beta.
    return {{{real({3, 5}, 0, 0.4), real({3, 5}, 0.5, 0.9)}, {}},
            {{real({3, 5}, 3, 5), real({5})}, {Reduction::sum, 0.8}},
            {{real({3, 5}), real({3, 1}, 3, 5)}, {Reduction::none, 0}},
            {{real({3, 5}), real({3, 5})}, {Reduction::none, 6}}};
  }
};

struct HuberAttrs {
  Reduction reduction = Reduction::mean;
  double delta = 1;
  MEZZO_FIELDS(HuberAttrs, reduction, delta)
};

struct Huber : ElementwiseLoss {
  using Attrs = HuberAttrs;
  static constexpr std::string_view kName = "huber_loss", kBackwardName = "huber_loss_backward";
  static void check(const Attrs& attrs, const Shape& /*x*/) {
    if (attrs.delta > 0) return;
    throw ValueError(kName, "delta > 0", number_text(attrs.delta), "pass where the loss becomes linear");
  }
  static auto loss(const Attrs& attrs) { return HuberFn{attrs.delta}; }
  static auto slope(const Attrs& attrs) { return HuberSlopeFn{attrs.delta}; }
  static Tensor losses(const Attrs& attrs, const Tensor& x, const Tensor& target) {
    const Tensor difference = x - target, distance = abs(difference);
    return joined(distance, attrs.delta, (distance - 0.5 * attrs.delta) * attrs.delta, difference, 0.5);
  }
  static std::vector<Sample<Attrs>> samples() {
    return {{{real({3, 5}, 0, 0.4), real({3, 5}, 0.5, 0.9)}, {}},
            {{real({3, 5}, 3, 5), real({5})}, {Reduction::sum, 0.8}},
            {{real({3, 5}), real({3, 1})}, {Reduction::none, 6}}};
  }
};

const Registered smooth_registered{kElementwiseLoss<SmoothL1>, kElementwiseLossBackward<SmoothL1>,
                                   kElementwiseLoss<Huber>, kElementwiseLossBackward<Huber>};

}  // namespace

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction, double beta) {
  return bind(kElementwiseLoss<SmoothL1>, {x, target}, SmoothL1Attrs{reduction, beta});
}

Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction, double delta) {
  return bind(kElementwiseLoss<Huber>, {x, target}, HuberAttrs{reduction, delta});
}

}  // namespace mezzo
