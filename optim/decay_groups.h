// decay_groups: weight decay for matrices and kernels, none for biases and norms.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

/// The parameters of a module in two groups with the same options, but for weight_decay, which is 0 in the
/// second. The second has all parameters named "bias", all of modules that are called a norm (LayerNorm,
/// BatchNorm2d, ...), and all of fewer than two dims. A group without parameters is left out.
///   optim::AdamW optimizer(optim::decay_groups(net, optim::AdamWOptions{.lr = 1e-3, .weight_decay = 0.1}));
template <class M, class Options>
[[nodiscard]] std::vector<ParamGroup<Options>> decay_groups(M& module, const Options& options) {
  ParamGroup<Options> decayed{{}, options}, plain{{}, options};
  plain.options.weight_decay = 0;
  NamedTensors of_norms;
  for (const auto& [path, part] : module.named_modules()) {
    if (part->type_name().find("Norm") == std::string::npos) continue;
    for (const auto* slot : part->param_slots()) of_norms.emplace_back(slot->name(), slot->get());
  }
  const auto decays = [&](const std::string& path, const Tensor& parameter) {
    if (parameter.dim() < 2 || path == "bias" || path.ends_with(".bias")) return false;
    for (const auto& [name, tensor] : of_norms) {
      if (tensor.is_same(parameter)) return false;
    }
    return true;
  };
  for (auto& [path, parameter] : module.named_parameters())
    (decays(path, parameter) ? decayed : plain).parameters.emplace_back(path, parameter);
  std::vector<ParamGroup<Options>> groups;
  for (ParamGroup<Options>* group : {&decayed, &plain}) {
    if (!group->parameters.empty()) groups.push_back(std::move(*group));
  }
  return groups;
}

}  // namespace mezzo::optim
