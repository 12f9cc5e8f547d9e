// The parameters that a surgery changes: of exchanged modules, matched by name, sharing resolved.
#include <algorithm>

#include "mezzo/nn/surgery/operation.h"

namespace mezzo::nn::surgery {

namespace {

/// Parameters of `top` and of the wanted modules below it, under their names within `top`.
template <class Wanted>
NamedTensors parameters_of(const Module& top, const Wanted& wanted) {
  NamedTensors result;
  std::vector<std::pair<const Module*, std::string>> waiting{{&top, ""}};
  while (!waiting.empty()) {
    const auto [module, prefix] = std::move(waiting.back());
    waiting.pop_back();
    for (const Param* slot : module->param_slots()) {
      if (slot->defined()) result.emplace_back(prefix + slot->name(), slot->get());
    }
    const auto slots = module->child_slots();
    for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
      if ((*slot)->module() && wanted(*(*slot)->module()))
        waiting.emplace_back((*slot)->module().get(), prefix + (*slot)->name() + ".");
    }
  }
  return result;
}

/// Leaves those parameters of a list that `chosen` picks, each tensor once.
template <class Chosen>
void retain(NamedTensors& list, PointerSet& listed, const Chosen& chosen) {
  std::erase_if(
      list, [&](const auto& entry) { return !chosen(entry.second) || !listed.insert(&entry.second.impl()); });
}

}  // namespace

std::vector<std::pair<Tensor, Tensor>> changed_parameters(const std::vector<Replaced>& replaced,
                                                          const Inventory& originals,
                                                          const std::vector<const Module*>& remaining) {
  PointerSet staying, still_there, listed;
  for (const Module* module : remaining) {
    staying.insert(module);
    for (const Param* slot : module->param_slots()) {
      if (slot->defined()) still_there.insert(&slot->get().impl());
    }
  }
  // Each module is looked through once: those exchanged have entries of their own.
  PointerSet seen;
  for (const Replaced& entry : replaced) {
    seen.insert(entry.before.get());
    seen.insert(entry.after.get());
  }
  std::vector<std::pair<Tensor, Tensor>> pairs;
  for (const Replaced& entry : replaced) {
    NamedTensors gone, fresh;
    if (!staying.contains(entry.before.get()))
      gone = parameters_of(*entry.before, [&](const Module& module) {
        return !staying.contains(&module) && seen.insert(&module);
      });
    if (!originals.holds(*entry.after))
      fresh = parameters_of(*entry.after, [&](const Module& module) {
        return !originals.holds(module) && seen.insert(&module);
      });
    retain(gone, listed, [&](const Tensor& tensor) {
      return originals.holds(tensor) && !still_there.contains(&tensor.impl());
    });
    retain(fresh, listed, [&](const Tensor& tensor) { return !originals.holds(tensor); });
    for (const auto& [name, before] : gone) {
      const auto successor = std::find_if(fresh.begin(), fresh.end(),
                                          [&, &wanted = name](const auto& e) { return e.first == wanted; });
      pairs.emplace_back(before, successor == fresh.end() ? Tensor() : successor->second);
      if (successor != fresh.end()) fresh.erase(successor);
    }
    for (const auto& [name, after] : fresh) pairs.emplace_back(Tensor(), after);
  }
  return pairs;
}

}  // namespace mezzo::nn::surgery
