// The per-element arithmetic of optimizers, for every device. `at(step, lr)` works out what one tensor's step
// needs once, in f64; the result updates one element in the compute type. Every product is rounded by itself
// (math::detail::mul_add), so that devices agree bit by bit but for what `at` takes from pow.
#pragma once

#include <cmath>
#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math.h"
#include "mezzo/kernels/optimizer.h"

namespace mezzo::kernels {

/// See kernels::sgd. S: momentum buffers per parameter, 0 or 1.
template <class T, int S>
struct SgdFn {
  static constexpr int kStates = S;
  T lr, momentum, fresh, weight_decay, sign;
  bool nesterov, first;

  MEZZO_HD static SgdFn at(const SgdRule& rule, std::int64_t step, double lr) {
    return {T(lr),
            T(rule.momentum),
            T(1.0 - rule.dampening),
            T(rule.weight_decay),
            rule.maximize ? T(-1) : T(1),
            rule.nesterov,
            step == 1};
  }
  MEZZO_HD void operator()(T& p, T gradient, T* state) const {
    using math::detail::mul_add, math::detail::multiply;
    T g = mul_add(sign, gradient, multiply(weight_decay, p));
    if constexpr (S > 0) {
      const T buffer = first ? g : mul_add(momentum, state[0], multiply(fresh, g));
      state[0] = buffer;
      g = nesterov ? mul_add(momentum, buffer, g) : buffer;
    }
    p = mul_add(-lr, g, p);
  }
};

/// See kernels::adam. S: moments per parameter, 2, or 3 with amsgrad.
template <class T, int S>
struct AdamFn {
  static constexpr int kStates = S;
  T beta1, beta2, one_minus_beta1, one_minus_beta2, eps, coupled_decay, shrink, step_size, inv_sqrt_bias2,
      sign;

  MEZZO_HD static AdamFn at(const AdamRule& rule, std::int64_t step, double lr) {
    const auto t = static_cast<double>(step);
    const double bias1 = 1.0 - std::pow(rule.beta1, t);
    const double bias2 = 1.0 - std::pow(rule.beta2, t);
    return {T(rule.beta1),
            T(rule.beta2),
            T(1.0 - rule.beta1),
            T(1.0 - rule.beta2),
            T(rule.eps),
            rule.decoupled ? T(0) : T(rule.weight_decay),
            rule.decoupled ? T(math::detail::mul_add(-lr, rule.weight_decay, 1.0)) : T(1),
            T(lr / bias1),
            T(1.0 / std::sqrt(bias2)),
            rule.maximize ? T(-1) : T(1)};
  }
  MEZZO_HD void operator()(T& p, T gradient, T* state) const {
    using math::detail::mul_add, math::detail::multiply;
    const T g = mul_add(sign, gradient, multiply(coupled_decay, p));
    const T m = mul_add(beta1, state[0], multiply(one_minus_beta1, g));
    const T v = mul_add(beta2, state[1], multiply(multiply(one_minus_beta2, g), g));
    state[0] = m;
    state[1] = v;
    T second = v;
    if constexpr (S > 2) {
      // A NaN must win, as in torch.maximum; v is NaN exactly when it is not >= 0.
      second = v > state[2] || !(v == v) ? v : state[2];
      state[2] = second;
    }
    p = mul_add(shrink, p, multiply(-step_size, m / mul_add(math::sqrt(second), inv_sqrt_bias2, eps)));
  }
};

}  // namespace mezzo::kernels
