// The step of Adam and AdamW on one element, and the numbers that depend on the step alone, computed in
// f64: bias corrections and the decoupled decay. amsgrad is a variant with a third state.
#include "mezzo/optim/adam.h"

#include <cmath>

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

struct AdamRule {
  double beta2, eps, weight_decay;
  bool decoupled, maximize;
};

/// S: moments per parameter, 2, or 3 with amsgrad.
template <class T, int S>
struct AdamFn : kernels::UpdateRule<S> {
  kernels::DecayedGradient<T> decayed;
  kernels::MovingAverage<T> first, second;
  T eps, shrink, step_size, inv_sqrt_bias2;

  MEZZO_HD static AdamFn at(const AdamRule& rule, const kernels::StepNow& now) {
    const auto t = static_cast<double>(now.step);
    const double lr = now.rates.lr, beta1 = now.rates.momentum;
    const double bias1 = 1.0 - std::pow(beta1, t);
    const double bias2 = 1.0 - std::pow(rule.beta2, t);
    return {{},
            kernels::DecayedGradient<T>::of(rule.maximize, rule.decoupled ? 0 : rule.weight_decay),
            kernels::MovingAverage<T>::of(beta1),
            kernels::MovingAverage<T>::of(rule.beta2),
            T(rule.eps),
            T(kernels::shrinkage(lr, rule.decoupled ? rule.weight_decay : 0)),
            T(lr / bias1),
            T(1.0 / std::sqrt(bias2))};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply;
    const T g = decayed(p, gradient);
    const T m = first.with(state[0], g);
    const T v = second.with_square(state[1], g);
    state[0] = m;
    state[1] = v;
    T size = v;
    if constexpr (S > 2) {
      // A NaN must win, as in torch.maximum; v is NaN exactly when it is not >= 0.
      size = v > state[2] || !(v == v) ? v : state[2];
      state[2] = size;
    }
    p = mul_add(shrink, p, multiply(-step_size, m / mul_add(kernels::math::sqrt(size), inv_sqrt_bias2, eps)));
  }
};
template <class T>
using PlainAdamFn = AdamFn<T, 2>;
template <class T>
using AmsgradFn = AdamFn<T, 3>;

}  // namespace

template <bool decoupled>
void AdamOptionsOf<decoupled>::check() const {
  require_not_negative(kOptimizer, {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}});
  require_below_one(kOptimizer, {{"beta1", beta1}, {"beta2", beta2}});
}

template <bool decoupled>
struct AlgorithmOf<AdamOptionsOf<decoupled>> : AlgorithmDefaults {
  static BufferNames buffers(const AdamOptionsOf<decoupled>& o) {
    if (o.amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    return {"exp_avg", "exp_avg_sq"};
  }
  static void update(const AdamOptionsOf<decoupled>& o, Device device, Updates updates,
                     const kernels::UpdateControl& control) {
    const AdamRule rule{o.beta2, o.eps, o.weight_decay, decoupled, o.maximize};
    if (o.amsgrad)
      kernels::update<AmsgradFn>(device, updates, rule, control);
    else
      kernels::update<PlainAdamFn>(device, updates, rule, control);
  }
};

template struct AdamOptionsOf<false>;
template struct AdamOptionsOf<true>;
template class TypedOptimizer<AdamOptions>;
template class TypedOptimizer<AdamWOptions>;

}  // namespace mezzo::optim
