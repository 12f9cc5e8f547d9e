// Adagrad's step on one element, with the sum of its squared gradients. The decayed learning rate is
// computed once per parameter and step.
#include "mezzo/optim/adagrad.h"

#include "mezzo/kernels/optim/update.h"

namespace mezzo::optim {

namespace {

struct AdagradRule {
  double lr_decay, eps, weight_decay;
  bool maximize;
};

template <class T>
struct AdagradFn : kernels::UpdateRule<1> {
  kernels::DecayedGradient<T> decayed;
  T step_size, eps;

  MEZZO_HD static AdagradFn at(const AdagradRule& rule, const kernels::StepNow& now) {
    const auto before = static_cast<double>(now.step - 1);
    return {{},
            kernels::DecayedGradient<T>::of(rule.maximize, rule.weight_decay),
            T(now.rates.lr / kernels::math::detail::mul_add(before, rule.lr_decay, 1.0)),
            T(rule.eps)};
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

BufferNames Adagrad::buffer_names(std::size_t /*group*/) const { return {"sum"}; }

double Adagrad::initial_value(std::size_t group, std::size_t /*i*/) const {
  return options(group).initial_accumulator_value;
}

void Adagrad::update(std::size_t group, std::span<const kernels::ParameterUpdate> updates,
                     const kernels::UpdateControl& control) const {
  const AdagradOptions& o = options(group);
  const AdagradRule rule{o.lr_decay, o.eps, o.weight_decay, o.maximize};
  kernels::update<AdagradFn>(device(), updates, rule, control);
}

template class TypedOptimizer<AdagradOptions>;

}  // namespace mezzo::optim
