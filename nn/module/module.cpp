// Walks over the tree of slots that list parameters, buffers and modules, each once under its first path,
// and what is made of such lists: training mode, requires_grad_, zero_grad. Module::to is in convert.cpp.
#include "mezzo/nn/module.h"

#include <unordered_set>

#include "mezzo/core/layout.h"
#include "mezzo/nn/module/cloning.h"
#include "mezzo/nn/module/walk.h"

namespace mezzo::nn {

namespace {

using Seen = std::unordered_set<const void*>;  // asked only whether it holds something: no order shows

std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

/// Calls visit(path, module) for a module and everything below it, parents first, each module once.
template <class M, class Visit>
void visit_modules(M& root, const Visit& visit) {
  Seen seen;
  detail::walk(root, [&](const std::string& path, M& module) {
    if (!seen.insert(&module).second) return false;
    visit(path, module);
    return true;
  });
}

/// The tensors of `slots_of(module)` all over the tree, each tensor once.
template <class SlotsOf>
NamedTensors collect(const Module& root, const SlotsOf& slots_of) {
  NamedTensors result;
  Seen tensors;
  visit_modules(root, [&](const std::string& path, const Module& module) {
    for (const TensorSlot* slot : slots_of(module)) {
      if (slot->defined() && tensors.insert(&slot->get().impl()).second)
        result.emplace_back(joined(path, slot->name()), slot->get());
    }
  });
  return result;
}

}  // namespace

Module::Module() = default;
Module::~Module() {
  if (hooks_) detail::leave_hooks(hooks_, *this);
}
Layer::~Layer() = default;

std::string Module::extra_repr() const { return {}; }
std::span<Param* const> Module::param_slots() const noexcept { return params_; }
std::span<Buffer* const> Module::buffer_slots() const noexcept { return buffers_; }
std::span<ChildSlot* const> Module::child_slots() const noexcept { return children_; }

NamedTensors Module::named_parameters() const {
  return collect(*this, [](const Module& module) { return module.param_slots(); });
}

NamedTensors Module::named_buffers() const {
  return collect(*this, [](const Module& module) { return module.buffer_slots(); });
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (auto& [path, tensor] : named_parameters()) result.push_back(std::move(tensor));
  return result;
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> result;
  visit_modules(*this, [&](const std::string& path, Module& module) { result.emplace_back(path, &module); });
  return result;
}

std::vector<std::pair<std::string, const Module*>> Module::named_modules() const {
  std::vector<std::pair<std::string, const Module*>> result;
  visit_modules(*this,
                [&](const std::string& path, const Module& module) { result.emplace_back(path, &module); });
  return result;
}

std::vector<std::shared_ptr<Module>> Module::children() const {
  std::vector<std::shared_ptr<Module>> result;
  Seen seen;
  for (const ChildSlot* slot : children_) {
    if (slot->module() && seen.insert(slot->module().get()).second) result.push_back(slot->module());
  }
  return result;
}

std::int64_t Module::num_parameters() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

Module& Module::train(bool on) {
  visit_modules(*this, [&](const std::string& /*path*/, Module& module) { module.training_ = on; });
  return *this;
}

Module& Module::requires_grad_(bool on) {
  for (const Tensor& parameter : parameters()) parameter.requires_grad_(on);
  return *this;
}

void Module::zero_grad() {
  for (const Tensor& parameter : parameters()) parameter.set_grad({});
}

std::string Module::path() const {
  std::vector<const std::string*> names;  // from here up
  for (const Module* module = this; !module->holders_.empty();) {
    names.push_back(&module->holders_.front()->name());
    module = &module->holders_.front()->owner();
  }
  std::string path;
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    path.append(path.empty() ? "" : ".").append(**name);
  return path;
}

std::string Module::described() const {
  const std::string where = path();
  return where.empty() ? type_name() : type_name() + " '" + where + "'";
}

void detail::learn_copier(Module& module, const Copier& copier) noexcept {
  if (copier.type != nullptr && *copier.type == typeid(module)) module.copier_ = copier;
}

}  // namespace mezzo::nn
