// RMSprop's step on one element in four variants, centered or not, with momentum or not, each with only
// the state that it needs.
#include "mezzo/optim/rmsprop.h"

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

/// States: the mean square, the mean when centered, the momentum buffer where there is one. That is last, so
/// that the other buffers keep their places when a schedule takes the momentum to 0.
template <class T, bool kCentered, bool kMomentum>
struct RmspropFn : kernels::UpdateRule<1 + kCentered + kMomentum> {
  kernels::DecayedGradient<T> decayed;
  kernels::MovingAverage<T> average;
  T lr, momentum, eps;

  MEZZO_HD static RmspropFn at(const RMSpropOptions& o, const kernels::StepNow& now) {
    return {{},
            kernels::DecayedGradient<T>::of(o.maximize, o.weight_decay),
            kernels::MovingAverage<T>::of(o.alpha),
            T(now.rates.lr),
            T(now.rates.momentum),
            T(o.eps)};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::detail::mul_add;
    const T g = decayed(p, gradient);
    T variance = average.with_square(state[0], g);
    state[0] = variance;
    if constexpr (kCentered) {
      const T mean = average.with(state[1], g);
      state[1] = mean;
      variance = mul_add(-mean, mean, variance);
    }
    T step = g / (kernels::math::sqrt(variance) + eps);
    if constexpr (kMomentum) {
      step = mul_add(momentum, state[1 + kCentered], step);
      state[1 + kCentered] = step;
    }
    p = mul_add(-lr, step, p);
  }
};
template <class T>
using PlainFn = RmspropFn<T, false, false>;
template <class T>
using MomentumFn = RmspropFn<T, false, true>;
template <class T>
using CenteredFn = RmspropFn<T, true, false>;
template <class T>
using CenteredMomentumFn = RmspropFn<T, true, true>;

}  // namespace

void RMSpropOptions::check() const {
  require_not_negative(kOptimizer,
                       {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}, {"momentum", momentum}});
  require_option(kOptimizer, alpha >= 0 && alpha <= 1, "alpha in [0, 1]", alpha);
}

template <>
struct AlgorithmOf<RMSpropOptions> : AlgorithmDefaults {
  static BufferNames buffers(const RMSpropOptions& o) {
    BufferNames names{"square_avg"};
    if (o.centered) names.push_back("grad_avg");
    if (o.momentum > 0) names.push_back("momentum_buffer");
    return names;
  }
  static void update(const RMSpropOptions& o, Device device, Updates updates,
                     const kernels::UpdateControl& control) {
    if (o.centered && o.momentum > 0)
      kernels::update<CenteredMomentumFn>(device, updates, o, control);
    else if (o.centered)
      kernels::update<CenteredFn>(device, updates, o, control);
    else if (o.momentum > 0)
      kernels::update<MomentumFn>(device, updates, o, control);
    else
      kernels::update<PlainFn>(device, updates, o, control);
  }
};

template class TypedOptimizer<RMSpropOptions>;

}  // namespace mezzo::optim
