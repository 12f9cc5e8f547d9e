// The scalar math of the elementwise losses and of their gradients, on the compute types float and double.
// `scale` in a gradient is what the reduction contributes: 1, or 1 / number of elements.
#pragma once

#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::scalar {

struct SquaredErrorFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T difference = x - target;
    return difference * difference;
  }
};
struct SquaredErrorGradientFn {
  double scale;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, T target) const {
    return (x - target) * (T(2 * scale) * grad);
  }
};

struct AbsoluteErrorFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    return AbsFn{}(x - target);
  }
};
struct AbsoluteErrorGradientFn {
  double scale;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, T target) const {
    return SignFn{}(x - target) * (T(scale) * grad);
  }
};

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

// --- losses of one prediction and one target, each with its derivative by x (the slope)

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
    // What is not beyond may be NaN, and stays. Without a limit the loss is l1's.
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

/// max(0, margin - order (a - b)).
struct MarginRankingFn {
  double margin;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b, T order) const {
    return MaximumFn{}(T(margin) - order * (a - b), T(0));
  }
};

/// slope(x, target) times the gradient of the loss.
template <class Slope>
struct SlopeGradientFn {
  Slope slope;
  double scale;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, T target) const {
    return slope(x, target) * (T(scale) * grad);
  }
};

}  // namespace mezzo::kernels::scalar
