#include "mezzo/optim/sgd.h"

#include "mezzo/kernels/update.h"

namespace mezzo::optim {

namespace {

struct SgdRule {
  double dampening, weight_decay;
  bool nesterov, maximize;
};

/// S: momentum buffers per parameter, 0 or 1.
template <class T, int S>
struct SgdFn : kernels::UpdateRule<S> {
  T lr, momentum, fresh, weight_decay, sign;
  bool nesterov, first;

  MEZZO_HD static SgdFn at(const SgdRule& rule, const kernels::StepNow& now) {
    return {{},
            T(now.rates.lr),
            T(now.rates.momentum),
            T(1.0 - rule.dampening),
            T(rule.weight_decay),
            rule.maximize ? T(-1) : T(1),
            rule.nesterov,
            now.step == 1};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* state) const {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply;
    T g = mul_add(sign, gradient, multiply(weight_decay, p));
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
  const auto require = [](bool good, const char* expected, double got) {
    require_option("SGD", good, expected, got);
  };
  require(lr >= 0, "lr >= 0", lr);
  require(momentum >= 0, "momentum >= 0", momentum);
  require(weight_decay >= 0, "weight_decay >= 0", weight_decay);
  require(!nesterov || momentum > 0, "momentum > 0 with nesterov", momentum);
  require(!nesterov || dampening == 0, "dampening 0 with nesterov", dampening);
}

SGD::SGD(const std::vector<Tensor>& parameters, SGDOptions options) : SGD({{unnamed(parameters), options}}) {}
SGD::SGD(const NamedTensors& parameters, SGDOptions options) : SGD({{parameters, options}}) {}
SGD::SGD(const std::vector<ParamGroup<SGDOptions>>& groups) : TypedOptimizer(groups) {}

BufferNames SGD::buffer_names(std::size_t group) const {
  if (options(group).momentum == 0) return {};
  return {"momentum_buffer"};
}

void SGD::update(std::size_t group, std::span<const kernels::ParameterUpdate> updates,
                 const kernels::UpdateControl& control) const {
  const SGDOptions& o = options(group);
  const SgdRule rule{o.dampening, o.weight_decay, o.nesterov, o.maximize};
  if (o.momentum != 0)
    kernels::update<MomentumSgdFn>(device(), updates, rule, control);
  else
    kernels::update<PlainSgdFn>(device(), updates, rule, control);
}

template class TypedOptimizer<SGDOptions>;

}  // namespace mezzo::optim
