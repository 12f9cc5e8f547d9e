// Activation checkpointing of modules: one call, or all calls of the modules of a type, keep what they are
// called with and run again in backward (autograd/checkpoint.h). The modules stay as they are, with their
// names.
//   nn::checkpoint_layers<nn::TransformerEncoderLayer>(model);
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "mezzo/autograd/checkpoint.h"
#include "mezzo/core/function.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// module(inputs...) as an autograd::checkpoint: `x = nn::checkpoint(block, x)`. The module must live until
/// backward has run. Throws: what autograd::checkpoint says.
template <std::derived_from<Module> M, std::convertible_to<const Tensor&>... T>
auto checkpoint(M& module, const T&... inputs) {
  return autograd::checkpoint([&module](const auto&... given) { return module(given...); }, inputs...);
}

/// Makes each call of the modules of a model for which matches(module) holds, `root` among them, an
/// autograd::checkpoint of its forward; `on = false` makes their calls plain calls again. Returns the paths
/// of these modules, in the model's order. It is for calls (`net(x)`, `child(x)`; not `net.forward(x)`) that
/// take a tensor first and values after it, and return one tensor; other calls run as before. Hooks of such a
/// module run outside of its checkpoint, once. Chosen modules inside of chosen modules nest. Parameters,
/// buffers, state dict and optimizers are not touched; `clone` and replacements by surgery are not
/// checkpointed. Throws: a backward throws StateError when a module has ended since forward, or changed its
/// mode, and what autograd::checkpoint says. ValueError for an empty function. Source:
/// torch.distributed.algorithms._checkpoint.checkpoint_wrapper.apply_activation_checkpointing.
std::vector<std::string> checkpoint_layers(Module& root,
                                           const mezzo::detail::Function<bool(const Module&)>& matches,
                                           bool on = true);
/// checkpoint_layers for the modules of type T and of types derived from it.
template <std::derived_from<Module> T>
std::vector<std::string> checkpoint_layers(Module& root, bool on = true) {
  const auto matches = [](const Module& module) {
    if constexpr (std::same_as<T, Module>)
      return true;
    else
      return dynamic_cast<const T*>(&module) != nullptr;
  };
  return checkpoint_layers(root, matches, on);
}

/// Whether the calls of this module are checkpointed.
[[nodiscard]] bool is_checkpointed(const Module& module) noexcept;

}  // namespace mezzo::nn
