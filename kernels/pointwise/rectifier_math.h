// The scalar math of activations made of straight pieces, and of elu, which is one: their values and
// derivatives, on float and double. At a kink the derivative is PyTorch's.
#pragma once

#include "mezzo/kernels/math/math.h"

namespace mezzo::kernels::scalar {

using math::detail::select;

struct LeakyReluFn {
  double negative_slope;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return select(x > T(0), x, x * T(negative_slope));
  }
};
struct LeakyReluBackwardFn {
  double negative_slope;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    return select(x > T(0), grad, grad * T(negative_slope));
  }
};
struct PreluFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T weight) const {
    return select(x > T(0), x, x * weight);
  }
};

struct HardtanhFn {
  double min, max;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T at_least = x < T(min) ? T(min) : x;
    return at_least > T(max) ? T(max) : at_least;
  }
};
struct HardtanhBackwardFn {
  double min, max;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const bool outside = (x <= T(min)) | (x >= T(max));
    return outside ? T(0) : grad;
  }
};

struct HardsigmoidFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return HardtanhFn{0, 6}(x + T(3)) / T(6);
  }
};
struct HardsigmoidBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const bool inside = (x > T(-3)) & (x < T(3));
    return select(inside, grad / T(6), T(0));
  }
};
struct HardswishFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return x * HardtanhFn{0, 6}(x + T(3)) / T(6);
  }
};
struct HardswishBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T inside = select(x <= T(3), grad * (x / T(3) + T(0.5)), grad);
    return x < T(-3) ? T(0) : inside;
  }
};

/// x moved towards 0 by lambd, and no further.
struct SoftshrinkFn {
  double lambd;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T inside = x == x ? T(0) : x;  // NaN stays
    const T lower = select(x < T(-lambd), x + T(lambd), inside);
    return select(x > T(lambd), x - T(lambd), lower);
  }
};
struct SoftshrinkBackwardFn {
  double lambd;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const bool inside = (x >= T(-lambd)) & (x <= T(lambd));
    return inside ? T(0) : grad;
  }
};

/// positive * x above 0, negative * (e^(inner * x) - 1) below: elu, celu and selu.
struct EluCoefficients {
  double negative = 1, positive = 1, inner = 1;
};
struct EluFn {
  static constexpr bool kFuses16Bit = true;
  EluCoefficients c;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T below = math::expm1(x * T(c.inner)) * T(c.negative);
    return select(x > T(0), x * T(c.positive), below);
  }
};
struct EluBackwardFn {
  EluCoefficients c;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T below = math::exp(x * T(c.inner)) * T(c.negative * c.inner);
    return grad * select(x <= T(0), below, T(c.positive));  // NaN goes with the positive, as in PyTorch
  }
};

}  // namespace mezzo::kernels::scalar
