// The scalar math of softmax, log-softmax, cross-entropy and their gradients, on the compute types float and
// double. Apart from the row loops so that CPU and CUDA kernels share it.
#pragma once

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/math.h"

namespace mezzo::kernels::scalar {

/// exp(x - max), no x being above max: the terms of the denominator.
template <class T>
struct ExpMinusFn {
  T max;
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const { return math::exp_of_term(x - max); }
};
/// x / divisor. On a GPU a product with one correction, which rounds as the quotient, subnormal results
/// apart, and takes a third of its instructions.
template <class T>
struct DividedByFn {
  T divisor;
#if defined(__CUDA_ARCH__)
  T reciprocal = 1 / divisor;
  __device__ MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T q = x * reciprocal;
    return math::detail::add_product(q, math::detail::add_product(x, -q, divisor), reciprocal);
  }
#else
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const { return x / divisor; }
#endif
};
/// log-softmax. Two steps, because x - max is exact near the maximum while max + log_sum is rounded.
template <class T>
struct LogProbabilityFn {
  T max, log_sum;
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const { return (x - max) - log_sum; }
};
template <class T>
struct SoftmaxGradientFn {
  T dot;  ///< sum of grad * output
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T output) const { return output * (grad - dot); }
};
template <class T>
struct LogSoftmaxGradientFn {
  T sum;  ///< sum of grad
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T output) const { return grad - math::exp(output) * sum; }
};

/// The target mass q weight of a class is shared * weight, and own * weight more of the row's own class.
template <class T>
struct ClassMassFn {
  T own, shared;  ///< 1 - label_smoothing, label_smoothing / number of classes
};
/// Share of one class in the loss of a row, -mass log p, from its logit.
template <class T>
struct ClassLossFn {
  ClassMassFn<T> mass;
  LogProbabilityFn<T> log_probability;
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T weight) const {
    return -(mass.shared * weight) * log_probability(x);
  }
};
/// d loss / d logit of one class from exp(x - max): scale (p sum of masses - mass).
template <class T>
struct ClassGradientFn {
  ClassMassFn<T> mass;
  T p_scale;  ///< sum of masses / sum of exps
  T scale;
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T exp, T weight) const {
    return scale * (exp * p_scale - mass.shared * weight);
  }
};

}  // namespace mezzo::kernels::scalar
