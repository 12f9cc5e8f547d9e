// The scalar math of activations and of their derivatives, on float and double. Apart from math/scalar_math.h
// so that fused kernels (linear with an activation, norms) can take these few without the rest.
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
/// A NaN result lets the gradient pass, as in PyTorch.
struct ReluBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T out) const {
    return out <= T(0) ? T(0) : grad;
  }
};

struct SigmoidFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::sigmoid(x);
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
struct TanhBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T out) const {
    return grad * (T(1) - out * out);
  }
};

struct SiluFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return x * math::sigmoid(x);
  }
};
struct SiluBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T s = math::sigmoid(x);
    return grad * (s * (T(1) + x * (T(1) - s)));
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
struct GeluFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return x * normal_cdf(x);
  }
};
struct GeluBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    constexpr T kInverseSqrt2Pi = T(0.39894228040143267794);
    const T density = kInverseSqrt2Pi * math::exp(T(-0.5) * x * x);
    return grad * (normal_cdf(x) + x * density);
  }
};

/// Constants of the tanh form of gelu: u(x) = kGeluScale (x + kGeluCubic x^3).
inline constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;

struct GeluTanhFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T u = T(kGeluScale) * (x + T(kGeluCubic) * x * x * x);
    return T(0.5) * x * (T(1) + math::tanh(u));
  }
};
struct GeluTanhBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T square = x * x;
    const T t = math::tanh(T(kGeluScale) * (x + T(kGeluCubic) * square * x));
    const T du = T(kGeluScale) * (T(1) + T(3 * kGeluCubic) * square);
    return grad * (T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * du);
  }
};

}  // namespace mezzo::kernels::scalar
