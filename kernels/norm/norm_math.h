// The scalar math of the normalizations and their gradients, on the compute types float and double. Apart
// from the loops so that CPU and CUDA kernels share it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "mezzo/core/host_device.h"

namespace mezzo::kernels::scalar {

/// x - shift: terms of the sum that corrects a mean.
template <class T>
struct MinusFn {
  T shift;
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const { return x - shift; }
};
/// Terms of a variance.
template <class T>
struct SquaredDeviationFn {
  T shift;
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const { return (x - shift) * (x - shift); }
};

/// x -> (x - mean) * rstd, with the mean of the row's values. The mean is `shift` plus a small rest: a mean
/// rounded to T alone would move every value of a row with a large mean.
template <class T>
struct NormalizedFn {
  T shift = 0;
  T rstd = 1;
  T offset = 0;  ///< -(mean - shift) * rstd
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const { return (x - shift) * rstd + offset; }
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T weight, T bias) const { return (*this)(x)*weight + bias; }
};

/// 1 / sqrt(variance + eps).
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T reciprocal_deviation(double variance, double eps) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) < sizeof(double)) return static_cast<T>(::rsqrt(variance + eps));
#endif
  return static_cast<T>(1.0 / std::sqrt(variance + eps));
}

/// Mean and variance of a row from the sums of x - shift and of its squares, where `shift` is the mean up to
/// rounding.
template <class T>
struct Moments {
  T shift;
  double rest;  ///< mean - shift
  double variance;
  MEZZO_HD MEZZO_ALWAYS_INLINE Moments(T around, double sum, double squares, std::int64_t count)
      : Moments(of_means(around, sum / static_cast<double>(count), squares / static_cast<double>(count))) {}
  MEZZO_HD MEZZO_ALWAYS_INLINE Moments(T around, double mean_less_shift, double spread)
      : shift(around), rest(mean_less_shift), variance(spread) {}
  /// From the means of x - shift and of its square.
  [[nodiscard]] MEZZO_HD static MEZZO_ALWAYS_INLINE Moments of_means(T around, double rest, double square) {
    const double variance = square - rest * rest;
    return {around, rest, variance < 0 ? 0 : variance};  // a NaN stays
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double mean() const { return static_cast<double>(shift) + rest; }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE NormalizedFn<T> normalized(double eps) const {
    const T rstd = reciprocal_deviation<T>(variance, eps);
    return {shift, rstd, static_cast<T>(-rest) * rstd};
  }
};

// --- rows that leave f32
//
// Sums of finite f32 numbers, and their deviations from the mean, may be beyond f32. Such a row shows by a
// sum of deviations that is not finite, and its moments are taken again in f64, where they are finite. f64
// has nothing wider.

/// Whether a row is to be looked at again: the sum over it of x - shift was not finite. So is a row with NaN
/// or inf.
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE bool leaves_number(double deviations) {
  return sizeof(T) < sizeof(double) && !(deviations - deviations == 0.0);
}

/// Mean and variance found in f64. `farthest`: no |x - mean| is larger. Where a deviation may be beyond T the
/// shift is 0: NormalizedFn is then exact to a rounding of the largest deviation, as |mean| is smaller than
/// that.
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Moments<T> wide_moments(double mean, double variance,
                                                                   double farthest) {
  constexpr double kMost = 0.999 * static_cast<double>(std::numeric_limits<T>::max());
  const T shift = farthest < kMost ? static_cast<T>(mean) : T(0);
  return {shift, mean - static_cast<double>(shift), variance};
}

/// The moments of a row in parts, from the sums of x - shift and of its squares over all of it. `farthest`:
/// no |x - shift| is larger.
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Moments<T> moments_of_parts(T shift, double sum, double squares,
                                                                       std::int64_t count, double farthest) {
  const Moments<T> moments(shift, sum, squares, count);
  if (sizeof(T) == sizeof(double) || !(farthest > static_cast<double>(std::numeric_limits<T>::max())))
    return moments;
  return wide_moments<T>(moments.mean(), moments.variance, farthest);
}

/// Terms of the sums over a row that its gradient needs: grad * weight, without a weight grad alone; and that
/// times the normalized x.
struct WeightedGradFn {
  template <class T, class... Weight>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T /*x*/, Weight... weight) const {
    return (grad * ... * weight);
  }
};
template <class T>
struct GradDotFn {
  NormalizedFn<T> normalized;
  template <class... Weight>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, Weight... weight) const {
    return (grad * ... * weight) * normalized(x);
  }
};
/// d loss / d x of one element. With given statistics x has no part in it, an infinite one neither.
template <class T>
struct NormGradientFn {
  NormalizedFn<T> normalized;
  T mean_grad;  ///< mean over the row of grad * weight; 0 where the mean of x counts as constant
  T mean_dot;   ///< that of grad * weight * normalized x; 0 where its variance counts as constant
  template <class... Weight>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, Weight... weight) const {
    const T through_variance = mean_dot == T(0) ? T(0) : normalized(x) * mean_dot;
    return normalized.rstd * ((grad * ... * weight) - mean_grad - through_variance);
  }
};

}  // namespace mezzo::kernels::scalar
