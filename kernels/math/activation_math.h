// The scalar math of the activations that several kernels need: relu, sigmoid, tanh, and the normal
// distribution of gelu. Others stand beside their descriptors in ops/pointwise/.
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
  MEZZO_HD MEZZO_ALWAYS_INLINE float of_16_bits(float x) const { return math::tanh<math::detail::Fused>(x); }
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

/// The normal distribution: cdf(x), and e^(-x^2/2), which is sqrt(2 pi) times its density.
template <class T>
struct Normal {
  T cdf, bell;
};
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Normal<double> normal(double x) {
  constexpr double kInverseSqrt2 = 0.70710678118654752440;
  return {0.5 * std::erfc(-x * kInverseSqrt2), math::exp(-0.5 * x * x)};
}
/// Of NaN 1 and 0, so that the NaN of a product with x is x's on every processor. Relative errors: cdf at
/// most 5e-7, in the left tail too, where 1 + erf would have no digits left; bell 2e-7.
template <class Rounding = math::detail::RoundedTwice>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Normal<float> normal(float x) {
  using namespace math::detail;
  const float a = magnitude(x);
  const float t = select(a < 15.0F, a, 15.0F);  // cdf(-15) is zero already
  // e^(-t^2/2) with t^2 = high^2 + low, since the rounding error of a large t^2 would count. high has 12
  // bits, so its square is exact.
  const float high = Rounding::kOf16Bit ? t : bit_cast<float>(bit_cast<std::int32_t>(t) & ~0xFFF);
  const float low = Rounding::kOf16Bit ? 0.0F : (t - high) * (t + high);
  const auto [r, n] = reduce_by_ln2<Rounding>(-0.5F * high * high);
  const float scaled = scaled_by_power(exp_near_zero<Rounding>(mul_add(low, -0.5F, r)), n + 64);
  // cdf(-t) e^(t^2/2), a minimax fit.
  const float p =
      polynomial<Rounding>(t, 0x1.000000p-1F, 0x1.c064aep-2F, 0x1.76a44ep-3F, 0x1.4c069ep-5F, 0x1.0cc416p-8F);
  const float q = polynomial<Rounding>(t, 1.0F, 0x1.ac7488p+0F, 0x1.33845cp+0F, 0x1.dfea1ep-2F,
                                       0x1.a028e0p-4F, 0x1.50d818p-7F);
  const float tail = multiply(scaled * Rounding::divide(p, q), 0x1p-64F);
  return {select(x < 0.0F, tail, 1.0F - tail), multiply(scaled, 0x1p-64F)};
}

}  // namespace mezzo::kernels::scalar
