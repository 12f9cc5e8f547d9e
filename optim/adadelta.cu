// Adadelta's step on one element, with moving averages of the squared gradients and of the squared steps.
// Nothing in it depends on the step count.
#include "mezzo/optim/adadelta.h"

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

/// States: mean squares of the gradients and of the steps.
template <class T>
struct AdadeltaFn : kernels::UpdateRule<2> {
  kernels::DecayedGradient<T> decayed;
  kernels::MovingAverage<T> average;
  T lr, eps;

  MEZZO_HD static AdadeltaFn at(const AdadeltaOptions& o, const kernels::StepNow& now) {
    return {{},
            kernels::DecayedGradient<T>::of(o.maximize, o.weight_decay),
            kernels::MovingAverage<T>::of(o.rho),
            T(now.rates.lr),
            T(o.eps)};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::sqrt, kernels::math::detail::mul_add, kernels::math::detail::multiply;
    const T g = decayed(p, gradient);
    state[0] = average.with_square(state[0], g);
    const T step = multiply(sqrt(state[1] + eps) / sqrt(state[0] + eps), g);
    state[1] = average.with_square(state[1], step);
    p = mul_add(-lr, step, p);
  }
};

}  // namespace

void AdadeltaOptions::check() const {
  require_not_negative(kOptimizer, {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}});
  require_option(kOptimizer, rho >= 0 && rho <= 1, "rho in [0, 1]", rho);
}

template <>
struct AlgorithmOf<AdadeltaOptions> : AlgorithmDefaults {
  static constexpr auto update = kernels::update_by<AdadeltaFn, AdadeltaOptions>;
  static BufferNames buffers(const AdadeltaOptions& /*o*/) { return {"square_avg", "acc_delta"}; }
};

template class TypedOptimizer<AdadeltaOptions>;

}  // namespace mezzo::optim
