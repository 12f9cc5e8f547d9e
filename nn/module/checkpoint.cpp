// Which modules of a model are checkpointed is a mark beside their hooks.
#include "mezzo/nn/checkpoint.h"

#include "mezzo/core/error.h"

namespace mezzo::nn {

std::vector<std::string> checkpoint_layers(Module& root,
                                           const mezzo::detail::Function<bool(const Module&)>& matches,
                                           bool on) {
  if (matches == nullptr) {
    throw ValueError("checkpoint_layers", "a function that chooses modules", "an empty one",
                     "pass a predicate, or name a type: checkpoint_layers<Block>(model)");
  }
  std::vector<std::string> paths;
  std::vector<Module*> chosen;
  for (const auto& [path, module] : root.named_modules()) {
    if (!matches(*module)) continue;
    paths.push_back(path);
    chosen.push_back(module);
  }
  for (Module* const module : chosen) detail::HookedCall::set_checkpointed(*module, on);
  return paths;
}

bool is_checkpointed(const Module& module) noexcept { return detail::HookedCall::is_checkpointed(module); }

}  // namespace mezzo::nn
