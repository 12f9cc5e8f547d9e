// SGD's step on one element, with or without a momentum buffer, which begins as the first gradient.
#include "mezzo/optim/sgd.h"

#include <cmath>

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

/// S: momentum buffers per parameter, 0 or 1.
template <class T, int S>
struct SgdFn : kernels::UpdateRule<S> {
  kernels::DecayedGradient<T> decayed;
  T lr, momentum, fresh;
  bool nesterov, first;

  MEZZO_HD static SgdFn at(const SGDOptions& o, const kernels::StepNow& now) {
    return {{},
            kernels::DecayedGradient<T>::of(o.maximize, o.weight_decay),
            T(now.rates.lr),
            T(now.rates.momentum),
            T(1.0 - o.dampening),
            o.nesterov,
            now.step == 1};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply;
    T g = decayed(p, gradient);
    if constexpr (S > 0) {
      const T buffer = first ? g : mul_add(momentum, state[0], multiply(fresh, g));
      state[0] = buffer;
      g = nesterov ? mul_add(momentum, buffer, g) : buffer;
    }
    p = mul_add(-lr, g, p);
  }
};
template <class T>
using PlainSgdFn = SgdFn<T, 0>;
template <class T>
using MomentumSgdFn = SgdFn<T, 1>;

}  // namespace

void SGDOptions::check() const {
  require_not_negative(kOptimizer, {{"lr", lr}, {"momentum", momentum}, {"weight_decay", weight_decay}});
  require_option(kOptimizer, std::isfinite(dampening), "finite dampening", dampening);
  require_option(kOptimizer, !nesterov || momentum > 0, "momentum > 0 with nesterov", momentum);
  require_option(kOptimizer, !nesterov || dampening == 0, "dampening 0 with nesterov", dampening);
}

template <>
struct AlgorithmOf<SGDOptions> : AlgorithmDefaults {
  static BufferNames buffers(const SGDOptions& o) {
    if (o.momentum == 0) return {};
    return {"momentum_buffer"};
  }
  static void update(const SGDOptions& o, Device device, Updates updates,
                     const kernels::UpdateControl& control) {
    if (o.momentum != 0)
      kernels::update<MomentumSgdFn>(device, updates, o, control);
    else
      kernels::update<PlainSgdFn>(device, updates, o, control);
  }
};

template class TypedOptimizer<SGDOptions>;

}  // namespace mezzo::optim
