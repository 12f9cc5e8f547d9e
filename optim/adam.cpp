#include "mezzo/optim/adam.h"

namespace mezzo::optim {

template <bool decoupled>
void AdamOptionsOf<decoupled>::check() const {
  const auto require = [](bool good, const char* what, double got) {
    if (!good) throw ValueError(decoupled ? "AdamW" : "Adam", what, std::to_string(got), "check the options");
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
  const kernels::AdamRule rule{.beta1 = o.beta1,
                               .beta2 = o.beta2,
                               .eps = o.eps,
                               .weight_decay = o.weight_decay,
                               .decoupled = decoupled,
                               .amsgrad = o.amsgrad,
                               .maximize = o.maximize};
  kernels::adam(this->device(), updates, rule, control);
}

template struct AdamOptionsOf<false>;
template struct AdamOptionsOf<true>;
template class TypedOptimizer<AdamOptions>;
template class TypedOptimizer<AdamWOptions>;
template class AdamOf<false>;
template class AdamOf<true>;

}  // namespace mezzo::optim
