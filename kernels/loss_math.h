// The scalar math of the elementwise losses and of their gradients, on the compute types float and double.
// `scale` in a gradient is what the reduction contributes: 1, or 1 / number of elements.
#pragma once

#include "mezzo/kernels/math.h"
#include "mezzo/kernels/scalar_math.h"

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

}  // namespace mezzo::kernels::scalar
