#include "mezzo/optim/adam.h"

#include <cmath>

#include "mezzo/kernels/update.h"

namespace mezzo::optim {

namespace {

struct AdamRule {
  double beta2, eps, weight_decay;
  bool decoupled, maximize;
};

/// S: moments per parameter, 2, or 3 with amsgrad.
template <class T, int S>
struct AdamFn : kernels::UpdateRule<S> {
  T beta1, beta2, one_minus_beta1, one_minus_beta2, eps, coupled_decay, shrink, step_size, inv_sqrt_bias2,
      sign;

  MEZZO_HD static AdamFn at(const AdamRule& rule, const kernels::StepNow& now) {
    const auto t = static_cast<double>(now.step);
    const double lr = now.rates.lr, beta1 = now.rates.momentum;
    const double bias1 = 1.0 - std::pow(beta1, t);
    const double bias2 = 1.0 - std::pow(rule.beta2, t);
    return {{},
            T(beta1),
            T(rule.beta2),
            T(1.0 - beta1),
            T(1.0 - rule.beta2),
            T(rule.eps),
            rule.decoupled ? T(0) : T(rule.weight_decay),
            rule.decoupled ? T(kernels::math::detail::mul_add(-lr, rule.weight_decay, 1.0)) : T(1),
            T(lr / bias1),
            T(1.0 / std::sqrt(bias2)),
            rule.maximize ? T(-1) : T(1)};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply;
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
    p = mul_add(shrink, p,
                multiply(-step_size, m / mul_add(kernels::math::sqrt(second), inv_sqrt_bias2, eps)));
  }
};
template <class T>
using PlainAdamFn = AdamFn<T, 2>;
template <class T>
using AmsgradFn = AdamFn<T, 3>;

}  // namespace

template <bool decoupled>
void AdamOptionsOf<decoupled>::check() const {
  const auto require = [](bool good, const char* expected, double got) {
    require_option(decoupled ? "AdamW" : "Adam", good, expected, got);
  };
  require(lr >= 0, "lr >= 0", lr);
  require(eps >= 0, "eps >= 0", eps);
  require(beta1 >= 0 && beta1 < 1, "beta1 in [0, 1)", beta1);
  require(beta2 >= 0 && beta2 < 1, "beta2 in [0, 1)", beta2);
  require(weight_decay >= 0, "weight_decay >= 0", weight_decay);
}

template <bool decoupled>
BufferNames AdamOf<decoupled>::buffer_names(std::size_t group) const {
  if (this->options(group).amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {"exp_avg", "exp_avg_sq"};
}

template <bool decoupled>
void AdamOf<decoupled>::update(std::size_t group, std::span<const kernels::ParameterUpdate> updates,
                               const kernels::UpdateControl& control) const {
  const Options& o = this->options(group);
  const AdamRule rule{o.beta2, o.eps, o.weight_decay, decoupled, o.maximize};
  if (o.amsgrad)
    kernels::update<AmsgradFn>(this->device(), updates, rule, control);
  else
    kernels::update<PlainAdamFn>(this->device(), updates, rule, control);
}

template struct AdamOptionsOf<false>;
template struct AdamOptionsOf<true>;
template class TypedOptimizer<AdamOptions>;
template class TypedOptimizer<AdamWOptions>;
template class AdamOf<false>;
template class AdamOf<true>;

}  // namespace mezzo::optim
