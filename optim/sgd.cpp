#include "mezzo/optim/sgd.h"

namespace mezzo::optim {

void SGDOptions::check() const {
  const auto require = [](bool good, const char* what, double got) {
    if (!good) throw ValueError("SGD", what, std::to_string(got), "check the options");
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
  const kernels::SgdRule rule{.momentum = o.momentum,
                              .dampening = o.dampening,
                              .weight_decay = o.weight_decay,
                              .nesterov = o.nesterov,
                              .maximize = o.maximize};
  kernels::sgd(device(), updates, rule, control);
}

template class TypedOptimizer<SGDOptions>;

}  // namespace mezzo::optim
