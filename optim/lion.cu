// Lion's step on one element: the sign of one average of state and gradient moves the parameter, another
// average becomes the state. NaN counts as its own sign, so that it reaches the parameter.
#include "mezzo/optim/lion.h"

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

template <class T>
struct LionFn : kernels::UpdateRule<1> {
  kernels::MovingAverage<T> direction, average;
  T sign, shrink, lr;

  MEZZO_HD static LionFn at(const LionOptions& o, const kernels::StepNow& now) {
    return {{},
            kernels::MovingAverage<T>::of(now.rates.momentum),
            kernels::MovingAverage<T>::of(o.beta2),
            o.maximize ? T(-1) : T(1),
            T(kernels::shrinkage(now.rates.lr, o.weight_decay)),
            T(now.rates.lr)};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply, kernels::math::detail::select;
    const T g = multiply(sign, gradient);
    const T way = direction.with(state[0], g);
    state[0] = average.with(state[0], g);
    // 0 and NaN are their own signs.
    const T step = select(way > 0, lr, select(way < 0, -lr, way));
    p = mul_add(shrink, p, -step);
  }
};

}  // namespace

void LionOptions::check() const {
  require_not_negative(kOptimizer, {{"lr", lr}, {"weight_decay", weight_decay}});
  require_below_one(kOptimizer, {{"beta1", beta1}, {"beta2", beta2}});
}

template <>
struct AlgorithmOf<LionOptions> : AlgorithmDefaults {
  static constexpr auto update = kernels::update_by<LionFn, LionOptions>;
  static BufferNames buffers(const LionOptions& /*o*/) { return {"exp_avg"}; }
};

template class TypedOptimizer<LionOptions>;

}  // namespace mezzo::optim
