// Adagrad's step on one element, with the sum of its squared gradients. The decayed learning rate is
// computed once per parameter and step.
#include "mezzo/optim/adagrad.h"

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

template <class T>
struct AdagradFn : kernels::UpdateRule<1> {
  kernels::DecayedGradient<T> decayed;
  T step_size, eps;

  MEZZO_HD static AdagradFn at(const AdagradOptions& o, const kernels::StepNow& now) {
    const auto before = static_cast<double>(now.step - 1);
    return {{},
            kernels::DecayedGradient<T>::of(o.maximize, o.weight_decay),
            T(now.rates.lr / kernels::math::detail::mul_add(before, o.lr_decay, 1.0)),
            T(o.eps)};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::detail::mul_add;
    const T g = decayed(p, gradient);
    state[0] = mul_add(g, g, state[0]);
    p = mul_add(-step_size, g / (kernels::math::sqrt(state[0]) + eps), p);
  }
};

}  // namespace

void AdagradOptions::check() const {
  require_not_negative(kOptimizer, {{"lr", lr},
                                    {"lr_decay", lr_decay},
                                    {"weight_decay", weight_decay},
                                    {"initial_accumulator_value", initial_accumulator_value},
                                    {"eps", eps}});
}

template <>
struct AlgorithmOf<AdagradOptions> : AlgorithmDefaults {
  static constexpr auto update = kernels::update_by<AdagradFn, AdagradOptions>;
  static BufferNames buffers(const AdagradOptions& /*o*/) { return {"sum"}; }
  static double initial_value(const AdagradOptions& o, std::size_t /*i*/) {
    return o.initial_accumulator_value;
  }
};

template class TypedOptimizer<AdagradOptions>;

}  // namespace mezzo::optim
