// Adamax's step on one element. The running maximum decays by beta2, and a NaN wins it. The bias
// correction depends on the step alone and is computed in f64.
#include "mezzo/optim/adamax.h"

#include <cmath>

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

/// States: the mean of the gradients, and their largest size.
template <class T>
struct AdamaxFn : kernels::UpdateRule<2> {
  kernels::DecayedGradient<T> decayed;
  kernels::MovingAverage<T> average;
  T beta2, eps, step_size;

  MEZZO_HD static AdamaxFn at(const AdamaxOptions& o, const kernels::StepNow& now) {
    const double beta1 = now.rates.momentum;
    return {{},
            kernels::DecayedGradient<T>::of(o.maximize, o.weight_decay),
            kernels::MovingAverage<T>::of(beta1),
            T(o.beta2),
            T(o.eps),
            T(now.rates.lr / (1.0 - std::pow(beta1, static_cast<double>(now.step))))};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply, kernels::math::detail::select;
    const T g = decayed(p, gradient);
    state[0] = average.with(state[0], g);
    const T faded = multiply(beta2, state[1]), size = std::fabs(g) + eps;
    state[1] = select(faded > size || !(faded == faded), faded, size);
    p = mul_add(-step_size, state[0] / state[1], p);
  }
};

}  // namespace

void AdamaxOptions::check() const {
  require_not_negative(kOptimizer, {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}});
  require_below_one(kOptimizer, {{"beta1", beta1}, {"beta2", beta2}});
}

template <>
struct AlgorithmOf<AdamaxOptions> : AlgorithmDefaults {
  static constexpr auto update = kernels::update_by<AdamaxFn, AdamaxOptions>;
  static BufferNames buffers(const AdamaxOptions& /*o*/) { return {"exp_avg", "exp_inf"}; }
};

template class TypedOptimizer<AdamaxOptions>;

}  // namespace mezzo::optim
