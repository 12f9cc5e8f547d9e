// NAdam's step on one element, and the numbers that depend on the step alone: the momentum schedule, and
// the product of all momenta so far, which is carried in f64.
#include "mezzo/optim/nadam.h"

#include <cmath>

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

/// The momentum of step `step`.
MEZZO_HD double mu_at(const NAdamOptions& o, std::int64_t step, double beta1) {
  return beta1 * (1.0 - 0.5 * std::pow(0.96, static_cast<double>(step) * o.momentum_decay));
}

/// States: the mean of the gradients and of their squares.
template <class T>
struct NadamFn : kernels::UpdateRule<2> {
  static constexpr bool kCarries = true;

  kernels::DecayedGradient<T> decayed;
  kernels::MovingAverage<T> first, second;
  T eps, shrink, step_of_gradient, step_of_mean, inv_sqrt_bias2;

  /// The product of all momenta so far.
  MEZZO_HD static double carry(const NAdamOptions& o, std::int64_t step, const kernels::Rates& rates,
                               double before) {
    return kernels::math::detail::multiply(before, mu_at(o, step, rates.momentum));
  }
  MEZZO_HD static NadamFn at(const NAdamOptions& o, const kernels::StepNow& now) {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply;
    const double lr = now.rates.lr, beta1 = now.rates.momentum, product = now.carried;
    const double mu = mu_at(o, now.step, beta1), next = mu_at(o, now.step + 1, beta1);
    const double product_before_next = o.pytorch_1_13 ? multiply(product, mu) : product;
    const double bias2 = 1.0 - std::pow(o.beta2, static_cast<double>(now.step));
    return {{},
            kernels::DecayedGradient<T>::of(o.maximize, o.decoupled_weight_decay ? 0 : o.weight_decay),
            kernels::MovingAverage<T>::of(beta1),
            kernels::MovingAverage<T>::of(o.beta2),
            T(o.eps),
            T(kernels::shrinkage(lr, o.decoupled_weight_decay ? o.weight_decay : 0)),
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

template <>
struct AlgorithmOf<NAdamOptions> : AlgorithmDefaults {
  static constexpr auto update = kernels::update_by<NadamFn, NAdamOptions>;
  static constexpr std::string_view kCarried = "mu_product";
  static BufferNames buffers(const NAdamOptions& /*o*/) { return {"exp_avg", "exp_avg_sq"}; }
};

template class TypedOptimizer<NAdamOptions>;

}  // namespace mezzo::optim
