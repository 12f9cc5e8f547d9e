// RAdam's step on one element. Whether it divides by the root mean square, and the factor of
// rectification, depend on the step alone.
#include "mezzo/optim/radam.h"

#include <cmath>

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

/// The part that depends on the step alone: whether there is enough of the mean square to divide by, and what
/// the quotient is multiplied by.
struct Rectification {
  bool divides;
  double factor;

  MEZZO_HD static Rectification at(double beta2, double step) {
    const double power = std::pow(beta2, step), bias2 = 1.0 - power;
    const double longest = 2.0 / (1.0 - beta2) - 1.0;
    const double length = longest - 2.0 * step * power / bias2;
    if (!(length > 5.0)) return {false, 1.0};
    const double ratio =
        (length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length);
    return {true, std::sqrt(ratio) * std::sqrt(bias2)};
  }
};

/// States: the mean of the gradients and of their squares.
template <class T>
struct RadamFn : kernels::UpdateRule<2> {
  kernels::DecayedGradient<T> decayed;
  kernels::MovingAverage<T> first, second;
  T eps, shrink, step_size;
  bool divides;

  MEZZO_HD static RadamFn at(const RAdamOptions& o, const kernels::StepNow& now) {
    const auto t = static_cast<double>(now.step);
    const double lr = now.rates.lr, beta1 = now.rates.momentum;
    const Rectification rectification = Rectification::at(o.beta2, t);
    return {{},
            kernels::DecayedGradient<T>::of(o.maximize, o.decoupled_weight_decay ? 0 : o.weight_decay),
            kernels::MovingAverage<T>::of(beta1),
            kernels::MovingAverage<T>::of(o.beta2),
            T(o.eps),
            T(kernels::shrinkage(lr, o.decoupled_weight_decay ? o.weight_decay : 0)),
            T(lr / (1.0 - std::pow(beta1, t)) * rectification.factor),
            rectification.divides};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply, kernels::math::detail::select;
    const T g = decayed(p, gradient);
    state[0] = first.with(state[0], g);
    state[1] = second.with_square(state[1], g);
    const T size = select(divides, kernels::math::sqrt(state[1]) + eps, T(1));
    p = mul_add(shrink, p, multiply(-step_size, state[0] / size));
  }
};

}  // namespace

void RAdamOptions::check() const {
  require_not_negative(kOptimizer, {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}});
  require_below_one(kOptimizer, {{"beta1", beta1}, {"beta2", beta2}});
}

template <>
struct AlgorithmOf<RAdamOptions> : AlgorithmDefaults {
  static constexpr auto update = kernels::update_by<RadamFn, RAdamOptions>;
  static BufferNames buffers(const RAdamOptions& /*o*/) { return {"exp_avg", "exp_avg_sq"}; }
};

template class TypedOptimizer<RAdamOptions>;

}  // namespace mezzo::optim
