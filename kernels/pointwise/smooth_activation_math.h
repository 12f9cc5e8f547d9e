// The scalar math of the smooth activations and of their derivatives, on float and double. No term overflows
// where the result does not.
#pragma once

#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::scalar {

/// log(1 + x) for 0 <= x <= 1, as math::log1p and for less work. A NaN gives some number.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float log1p_to_one(float x) {
  using namespace math::detail;
  const float u = 1.0F + x;
  SplitForLog split = split_for_log(u);  // k is 0 or 1
  const bool is_direct = split.k == 0.0F;
  // What the rounding of 1 + x lost, over u; of that, a few bits count: 1/u on [sqrt(2), 2] as a line.
  const float lost = mul_add(u, -0.35355F, 1.2071F) * (x - (u - 1.0F));
  split.f = select(is_direct, x, split.f);
  return log_from_split(split, select(is_direct, 0.0F, lost));
}
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log1p_to_one(double x) { return math::log1p(x); }

/// log(1 + e^x).
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T log_one_plus_exp(T x) {
  return MaximumFn{}(x, T(0)) + log1p_to_one(math::exp_nonpositive(-AbsFn{}(x)));
}

/// log(1 + e^(beta x)) / beta; x where beta x is above the threshold.
struct SoftplusFn {
  double beta, threshold;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T scaled = x * T(beta);
    return math::detail::select(scaled > T(threshold), x, log_one_plus_exp(scaled) * T(1 / beta));
  }
};
struct SoftplusBackwardFn {
  double beta, threshold;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T scaled = x * T(beta);
    return grad * math::detail::select(scaled > T(threshold), T(1), math::sigmoid(scaled));
  }
};

struct LogsigmoidFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return -log_one_plus_exp(-x);
  }
};
struct LogsigmoidBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    return grad * math::sigmoid(-x);
  }
};

struct SoftsignFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return x / (T(1) + AbsFn{}(x));
  }
};
struct SoftsignBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T below = T(1) + AbsFn{}(x);
    return grad / (below * below);
  }
};

/// tanh(log(1 + e)) is n / (n + 2) with n = e (e + 2), and nothing in it cancels. At x = 20 it is 1 to the
/// last place of double, so that x goes no further.
template <class T>
struct MishParts {
  T bounded, e, n;
  MEZZO_HD MEZZO_ALWAYS_INLINE explicit MishParts(T x)
      : bounded(MinimumFn{}(x, T(40))), e(math::exp(bounded)), n(e * (e + T(2))) {}
};
/// x tanh(log(1 + e^x)).
struct MishFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const MishParts<T> parts(x);
    return x * (parts.n / (parts.n + T(2)));
  }
};
struct MishBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const MishParts<T> parts(x);
    const T below = parts.n + T(2);
    // e vanishes before x is far enough out for 4 x to be infinite: x meets it first.
    const T slope = parts.e * (T(1) + parts.e) / below * parts.bounded * (T(4) / below);
    return grad * (parts.n / below + slope);
  }
};

}  // namespace mezzo::kernels::scalar
