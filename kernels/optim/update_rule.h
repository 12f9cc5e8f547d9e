// An algorithm as kernels/optim/update.h takes it: a functor on the compute type.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/optim/optimizer.h"

namespace mezzo::kernels {

/// The numbers that one step of one parameter depends on besides its tensors.
struct StepNow {
  std::int64_t step;  ///< 1 in the first
  Rates rates;
  double carried;  ///< after this step; 0 when the algorithm carries nothing
};

/// Base of the functors. `template <class T> struct Fn : UpdateRule<S>` updates one element in the compute
/// type T (float or double) and has
///   MEZZO_HD static Fn at(const Rule& rule, const StepNow& now);   once per parameter, in f64
///   MEZZO_HD void operator()(T& p, T gradient, T* state) const;    state: S values, read and written
/// and, when it sets kCarries,
///   MEZZO_HD static double carry(const Rule& rule, std::int64_t step, const Rates& rates, double before);
/// Rule is the optimizer's options or a part of them. The rates, lr and momentum or beta1, come from `now`
/// all the same: a schedule may have changed them on the device. Every product is rounded by itself
/// (math::detail::mul_add), so that devices agree bit by bit but for what `at` takes from pow.
template <int S>
struct UpdateRule {
  static constexpr int kStates = S;
  static constexpr bool kCarries = false;
};

/// The gradient that an update begins with: negated to maximize, plus the coupled weight decay.
template <class T>
struct DecayedGradient {
  T sign, weight_decay;

  MEZZO_HD static DecayedGradient of(bool maximize, double weight_decay) {
    return {maximize ? T(-1) : T(1), T(weight_decay)};
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T p, T gradient) const {
    return math::detail::mul_add(sign, gradient, math::detail::multiply(weight_decay, p));
  }
};

/// The factor of a parameter under a decoupled weight decay.
MEZZO_HD inline double shrinkage(double lr, double weight_decay) {
  return math::detail::mul_add(-lr, weight_decay, 1.0);
}

/// A moving average, keep * before + (1 - keep) * x, of x or of its square.
template <class T>
struct MovingAverage {
  T keep, take;

  MEZZO_HD static MovingAverage of(double keep) { return {T(keep), T(1.0 - keep)}; }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T with(T before, T x) const {
    return math::detail::mul_add(keep, before, math::detail::multiply(take, x));
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T with_square(T before, T x) const {
    return math::detail::mul_add(keep, before, math::detail::multiply(math::detail::multiply(take, x), x));
  }
};

namespace detail {

/// The number that F carries, after this step.
template <class F, class Rule>
MEZZO_HD double carried_after(const Rule& rule, std::int64_t step, const Rates& rates,
                              const double* carried) {
  if constexpr (F::kCarries)
    return F::carry(rule, step, rates, *carried);
  else
    return 0;
}

/// F for the step after the first `done` steps.
template <class F, class Rule>
MEZZO_HD F functor_at(const Rule& rule, std::int64_t done, const Rates& rates, const double* carried) {
  const std::int64_t step = done + 1;
  return F::at(rule, StepNow{step, rates, carried_after<F>(rule, step, rates, carried)});
}

/// Counts a step that was made.
template <class F, class Rule>
MEZZO_HD void advance(const Rule& rule, const Rates& rates, std::int64_t* step, double* carried) {
  ++*step;
  if constexpr (F::kCarries) *carried = F::carry(rule, *step, rates, *carried);
}

}  // namespace detail

}  // namespace mezzo::kernels
