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

/// q weight of one class, its target mass, where q = own * target + shared. Without a target it is 0.
template <class T>
struct ClassMassFn {
  T own, shared;  ///< 1 - label_smoothing, label_smoothing / number of classes
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T weight) const { return shared * weight; }
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T weight, T target) const {
    return (own * target + shared) * weight;
  }
};
/// Share of one class in the loss of a row, -mass log p, from its logit.
template <class T>
struct ClassLossFn {
  ClassMassFn<T> mass;
  LogProbabilityFn<T> log_probability;
  template <class... Target>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T weight, Target... target) const {
    return -mass(weight, target...) * log_probability(x);
  }
};
/// d loss / d logit of one class from exp(x - max): scale (p sum of masses - mass).
template <class T>
struct ClassGradientFn {
  ClassMassFn<T> mass;
  T p_scale;  ///< sum of masses / sum of exps
  T scale;
  template <class... Target>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T exp, T weight, Target... target) const {
    return scale * (exp * p_scale - mass(weight, target...));
  }
};

}  // namespace mezzo::kernels::scalar
