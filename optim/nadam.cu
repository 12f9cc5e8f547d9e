// NAdam's step on one element, and the numbers that depend on the step alone: the momentum schedule, and
// the product of all momenta so far, which is carried in f64.
#include "mezzo/optim/nadam.h"

#include <cmath>

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

struct NadamRule {
  double beta2, eps, weight_decay, momentum_decay;
  bool decoupled, maximize, counts_mu_twice;

  /// The momentum of step `step`.
  [[nodiscard]] MEZZO_HD double mu(std::int64_t step, double beta1) const {
    return beta1 * (1.0 - 0.5 * std::pow(0.96, static_cast<double>(step) * momentum_decay));
  }
};

/// States: the mean of the gradients and of their squares.
template <class T>
struct NadamFn : kernels::UpdateRule<2> {
  static constexpr bool kCarries = true;

  kernels::DecayedGradient<T> decayed;
  kernels::MovingAverage<T> first, second;
  T eps, shrink, step_of_gradient, step_of_mean, inv_sqrt_bias2;

  /// The product of all momenta so far.
  MEZZO_HD static double carry(const NadamRule& rule, std::int64_t step, const kernels::Rates& rates,
                               double before) {
    return kernels::math::detail::multiply(before, rule.mu(step, rates.momentum));
  }
  MEZZO_HD static NadamFn at(const NadamRule& rule, const kernels::StepNow& now) {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply;
    const double lr = now.rates.lr, beta1 = now.rates.momentum, product = now.carried;
    const double mu = rule.mu(now.step, beta1), next = rule.mu(now.step + 1, beta1);
    const double product_before_next = rule.counts_mu_twice ? multiply(product, mu) : product;
    const double bias2 = 1.0 - std::pow(rule.beta2, static_cast<double>(now.step));
    return {{},
            kernels::DecayedGradient<T>::of(rule.maximize, rule.decoupled ? 0 : rule.weight_decay),
            kernels::MovingAverage<T>::of(beta1),
            kernels::MovingAverage<T>::of(rule.beta2),
            T(rule.eps),
            T(kernels::shrinkage(lr, rule.decoupled ? rule.weight_decay : 0)),
            T(lr * (1.0 - mu) / (1.0 - product)),
            T(lr * next / mul_add(-product_before_next, next, 1.0)),
            T(1.0 / std::sqrt(bias2))};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply;
    const T g = decayed(p, gradient);
    state[0] = first.with(state[0], g);
    state[1] = second.with_square(state[1], g);
    const T step = mul_add(step_of_gradient, g, multiply(step_of_mean, state[0]));
    p = mul_add(shrink, p, -step / mul_add(kernels::math::sqrt(state[1]), inv_sqrt_bias2, eps));
  }
};

}  // namespace

void NAdamOptions::check() const {
  require_not_negative(
      kOptimizer,
      {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}, {"momentum_decay", momentum_decay}});
  require_below_one(kOptimizer, {{"beta1", beta1}, {"beta2", beta2}});
}

BufferNames NAdam::buffer_names(std::size_t /*group*/) const { return {"exp_avg", "exp_avg_sq"}; }

void NAdam::update(std::size_t group, std::span<const kernels::ParameterUpdate> updates,
                   const kernels::UpdateControl& control) const {
  const NAdamOptions& o = options(group);
  const NadamRule rule{o.beta2,    o.eps,         o.weight_decay, o.momentum_decay, o.decoupled_weight_decay,
                       o.maximize, o.pytorch_1_13};
  kernels::update<NadamFn>(device(), updates, rule, control);
}

template class TypedOptimizer<NAdamOptions>;

}  // namespace mezzo::optim
