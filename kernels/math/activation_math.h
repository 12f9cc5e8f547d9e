// The scalar math of the activations that several kernels need: relu, sigmoid, tanh, and the normal
// distribution function of gelu. Others stand beside their descriptors in ops/pointwise/.
#pragma once

#include "mezzo/kernels/math/math.h"

namespace mezzo::kernels::scalar {

/// max(x, 0), NaN stays.
struct ReluFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
};

struct SigmoidBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T out) const {
    return grad * (out * (T(1) - out));
  }
};

struct TanhFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::tanh(x);
  }
};

/// A NaN result lets the gradient pass, as in PyTorch.
struct ReluBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T out) const {
    return out <= T(0) ? T(0) : grad;
  }
};

struct TanhBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T out) const {
    return grad * (T(1) - out * out);
  }
};

/// The normal distribution function, (1 + erf(x / sqrt(2))) / 2.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double normal_cdf(double x) {
  constexpr double kInverseSqrt2 = 0.70710678118654752440;
  return 0.5 * (1.0 + math::erf(x * kInverseSqrt2));
}
/// Error at most 2.6e-7, some 4 units in the last place of results above one half; never outside of [0,
/// 1]. A quotient of polynomials instead of erf with its exponential: twice as fast, and gelu is made of
/// little else.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float normal_cdf(float x) {
  using math::detail::polynomial;
  using math::detail::select;
  // From 5.4 on the result is within 4e-8 of 0 or 1. The quotient stays as it is there, so that the line
  // through it leaves [0, 1] at once.
  constexpr float kEnd = 5.4F * 5.4F;
  const float z = select(x * x > kEnd, kEnd, x * x);
  const float p = polynomial(z, 0x1.988450p-2F, 0x1.11621ep-5F, 0x1.30cc0cp-8F, 0x1.589a0ap-13F,
                             0x1.aacf8cp-18F, 0x1.91c81cp-26F);
  const float q =
      polynomial(z, 1.0F, 0x1.00532ap-2F, 0x1.d0f43ap-6F, 0x1.e75114p-10F, 0x1.2faa02p-14F, 0x1.469368p-20F);
  const float on_line = 0.5F + x * (p / q);
  return select(on_line < 0.0F, 0.0F, select(on_line > 1.0F, 1.0F, on_line));
}

}  // namespace mezzo::kernels::scalar
