// The hooks of modules: their lists, and how backward hooks hang on the tensors of a call.
#include <atomic>

#include "mezzo/autograd/checkpoint.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/nn/checkpoint.h"
#include "mezzo/nn/module.h"
#include "mezzo/nn/module/cloning.h"
#include "mezzo/ops/shape.h"

namespace mezzo::nn {

namespace {

using PreHook = ModuleHook<const Tensor&>;
using PairHook = ModuleHook<const Tensor&, const Tensor&>;

template <class Hook>
using HookList = std::vector<std::pair<std::size_t, Hook>>;

std::atomic<std::size_t> next_hook{0};  // no id comes twice, so an old one removes nothing

/// The hooks of one module, by kind.
struct Hooks final : RefCounted {
  HookList<PreHook> before;
  HookList<PairHook> after, backward;
  Module* module = nullptr;  ///< nullptr: it has ended
  bool is_checkpointed = false;
  bool was_checkpointed = false;  ///< graphs may still ask for `module`
};

Hooks& ensure_hooks(Module& module, Ref<RefCounted>& of) {
  if (!of) {
    of = make_ref<Hooks>();
    static_cast<Hooks&>(*of).module = &module;
  }
  return static_cast<Hooks&>(*of);
}

template <class Hook>
std::size_t add(Module& module, Ref<RefCounted>& of, HookList<Hook> Hooks::*list, const Hook& hook) {
  Hooks& hooks = ensure_hooks(module, of);
  const std::size_t id = next_hook.fetch_add(1, std::memory_order_relaxed);
  (hooks.*list).emplace_back(id, hook);
  return id;
}

/// Calls the hooks of a list on a tensor, which each may replace. A copy of the list, as a hook may change
/// it.
template <class Hook, class... Before>
void run_each(HookList<Hook> list, Module& module, Tensor& tensor, const Before&... before) {
  for (const auto& [id, hook] : list) {
    Tensor replaced = hook(module, before..., tensor);
    if (replaced.defined()) tensor = std::move(replaced);
  }
}

/// The state that the hooks at the two ends of a call share in a backward.
struct BackwardCall final : RefCounted {
  Ref<Hooks> hooks;
  Tensor grad_output;

  /// The gradient of the input that the hooks make of this one, which may be undefined.
  Tensor run(Tensor grad_input) {
    const Tensor output = std::exchange(grad_output, Tensor());
    if (hooks->module == nullptr) return grad_input;
    for (const auto& [id, hook] : HookList<PairHook>(hooks->backward)) {
      Tensor replaced = hook(*hooks->module, grad_input, output);
      if (!replaced.defined()) continue;
      if (!grad_input.defined()) {
        throw AutogradError("full_backward_hook", "no result where the input needs no gradient",
                            "a tensor of shape " + to_string(replaced.shape()), "return an undefined tensor");
      }
      grad_input = std::move(replaced);
    }
    return grad_input;
  }
};

}  // namespace

std::size_t Module::register_forward_pre_hook(const ModuleHook<const Tensor&>& hook) {
  return add(*this, hooks_, &Hooks::before, hook);
}

std::size_t Module::register_forward_hook(const ModuleHook<const Tensor&, const Tensor&>& hook) {
  return add(*this, hooks_, &Hooks::after, hook);
}

std::size_t Module::register_full_backward_hook(const ModuleHook<const Tensor&, const Tensor&>& hook) {
  return add(*this, hooks_, &Hooks::backward, hook);
}

void Module::remove_hook(std::size_t id) {
  if (!hooks_) return;
  auto& hooks = static_cast<Hooks&>(*hooks_);
  const auto has_id = [id](const auto& entry) { return entry.first == id; };
  std::erase_if(hooks.before, has_id);
  std::erase_if(hooks.after, has_id);
  std::erase_if(hooks.backward, has_id);
  const bool is_empty = hooks.before.empty() && hooks.after.empty() && hooks.backward.empty();
  if (is_empty && !hooks.was_checkpointed) hooks_ = {};
}

namespace detail {

void hand_hooks_over(const Ref<RefCounted>& from, Module& to, Ref<RefCounted>& hooks) noexcept {
  hooks = from;
  if (hooks) static_cast<Hooks&>(*hooks).module = &to;
}

void leave_hooks(const Ref<RefCounted>& hooks, const Module& module) noexcept {
  auto& left = static_cast<Hooks&>(*hooks);
  if (left.module == &module) left.module = nullptr;
}

bool HookedCall::is_needed(const Module& module) noexcept { return static_cast<bool>(module.hooks_); }

HookedCall::HookedCall(const Module& module, const Tensor* input)
    : module_(const_cast<Module&>(module)), hooks_(module.hooks_) {
  // Surgery may have made another module the owner of these hooks, and undone it.
  Module*& owner = static_cast<Hooks&>(*hooks_).module;
  if (owner != &module_) owner = &module_;
  if (input != nullptr) input_ = *input;
  const auto& hooks = static_cast<const Hooks&>(*hooks_);
  run_each(hooks.before, module_, input_);
  watches_backward_ = !hooks.backward.empty() && grad_enabled();
  // A view: its gradient is what comes through this call alone.
  if (watches_backward_ && input_.requires_grad()) input_ = view(input_, input_.shape());
}

bool HookedCall::is_checkpointed(const Module& module) noexcept {
  return module.hooks_ && static_cast<const Hooks&>(*module.hooks_).is_checkpointed;
}

void HookedCall::set_checkpointed(Module& module, bool on) {
  if (!on && !module.hooks_) return;
  Hooks& hooks = ensure_hooks(module, module.hooks_);
  hooks.is_checkpointed = on;
  hooks.was_checkpointed |= on;
}

bool HookedCall::is_checkpointed() const noexcept {
  return static_cast<const Hooks&>(*hooks_).is_checkpointed;
}

Tensor HookedCall::checkpointed(mezzo::detail::Function<Tensor(const Tensor&)> forward) const {
  const Ref<Hooks> hooks(&static_cast<Hooks&>(*hooks_));
  const Module* const module = &module_;
  const auto again = [hooks, module, training = module->is_training(),
                      forward = std::move(forward)](const Tensor& x) {
    if (hooks->module != module) {
      throw StateError("checkpoint_layers", "a layer that lives until backward has run", "one that has ended",
                       "keep the model until then");
    }
    if (module->is_training() != training) {
      throw StateError(
          "checkpoint_layers",
          training ? "a layer in training mode, as in forward" : "a layer in evaluation mode, as in forward",
          "the other mode", "change the mode after backward");
    }
    return forward(x);
  };
  return autograd::checkpoint(again, input_);
}

void HookedCall::returned(Tensor* output) {
  if (output == nullptr) return;
  const auto& hooks = static_cast<const Hooks&>(*hooks_);
  run_each(hooks.after, module_, *output, input_);
  if (!watches_backward_ || !output->defined() || !output->requires_grad()) return;
  const auto shared = make_ref<BackwardCall>();
  shared->hooks = Ref<Hooks>(&static_cast<Hooks&>(*hooks_));
  const bool has_input = input_.defined() && input_.requires_grad();
  // A result of its own, so that hooks of both ends are never on one tensor.
  *output = view(*output, output->shape());
  output->register_hook([shared, has_input](const Tensor& gradient) {
    shared->grad_output = gradient;
    if (!has_input) static_cast<void>(shared->run({}));
  });
  if (has_input) input_.register_hook([shared](const Tensor& gradient) { return shared->run(gradient); });
}

}  // namespace detail

// --- nn/checkpoint.h: which modules are checkpointed is a mark beside their hooks

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
