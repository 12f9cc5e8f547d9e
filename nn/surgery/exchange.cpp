// Surgery, the exchange: what replacements take over from the modules that go, and undo.
#include <algorithm>
#include <optional>

#include "mezzo/core/error.h"
#include "mezzo/nn/module/cloning.h"
#include "mezzo/nn/module/walk.h"
#include "mezzo/nn/surgery/operation.h"

namespace mezzo::nn::surgery {

namespace {

template <class Visit>
void each_tensor(const Module& module, const Visit& visit) {
  for (const Param* slot : module.param_slots()) {
    if (slot->defined()) visit(slot->get());
  }
  for (const Buffer* slot : module.buffer_slots()) {
    if (slot->defined()) visit(slot->get());
  }
}

/// Where the tensors of a module are.
struct Whereabouts {
  std::optional<Device> device = {};  ///< of the first tensor
  std::optional<DType> dtype = {};    ///< of the first floating one
  bool operator==(const Whereabouts&) const = default;
};

Whereabouts whereabouts_of(const Module& top) {
  Whereabouts result;
  PointerSet seen;
  nn::detail::walk(top, [&](const std::string& /*path*/, const Module& module) {
    if ((result.device && result.dtype) || !seen.insert(&module).second) return false;
    each_tensor(module, [&](const Tensor& tensor) {
      if (!result.device) result.device = tensor.device();
      if (!result.dtype && is_floating(tensor.dtype())) result.dtype = tensor.dtype();
    });
    return true;
  });
  return result;
}

/// Brings tensors to the device and dtype of a module's tensors or, if it has none, of the model's.
void bring(const std::vector<Tensor>& tensors, const Module& root, const Replaced& replaced,
           const Operation::Carried& carried) {
  if (tensors.empty()) return;
  Whereabouts target = whereabouts_of(*replaced.before);
  if (carried.only_changes && target == whereabouts_of(*replaced.after)) return;
  if (!target.device || !target.dtype) {
    const Whereabouts model = whereabouts_of(root);
    if (!target.device) target.device = model.device;
    if (!target.dtype) target.dtype = model.dtype;
  }
  for (const Tensor& tensor : tensors) {
    const DType dtype = carried.dtype && target.dtype ? *target.dtype : tensor.dtype();
    nn::detail::convert(tensor, target.device ? *target.device : tensor.device(), dtype);
  }
}

}  // namespace

Inventory::Added Inventory::add(Module& top) {
  Added added;
  nn::detail::walk(top, [&](const std::string& /*path*/, Module& module) {
    if (!modules.insert(&module).second) return false;
    added.modules.push_back(&module);
    each_tensor(module, [&](const Tensor& tensor) {
      if (tensors.insert(&tensor.impl()).second) added.tensors.push_back(tensor);
    });
    return true;
  });
  return added;
}

void Operation::carry_over(const Module& root, const Replaced& replaced, Inventory& present,
                           const Carried& carried) {
  const bool mode = replaced.before->is_training(), changes_mode = mode != replaced.after->is_training();
  const Inventory::Added brought = present.add(*replaced.after);
  for (Module* module : brought.modules) {
    if (changes_mode) module->training_ = mode;
  }
  const auto& region = nn::detail::call_region(*replaced.before);
  if (region != nullptr) nn::detail::set_call_region(*replaced.after, region);
  bring(brought.tensors, root, replaced, carried);
}

void Operation::exchange(const Report& report) {
  for (const Report::Place& place : report.places_)
    place.slot->exchange(report.replaced_[place.replaced].after);
}

Report Operation::undo(Report& done) {
  Report report;
  if (done.empty()) {
    report.add_note("there was nothing to undo");
    return report;
  }
  // A slot may be in a module that this very call puts back.
  PointerSet slots;
  const auto add_slots = [&](const Inventory::Added& added) {
    for (const Module* module : added.modules) {
      for (const ChildSlot* slot : module->child_slots()) slots.insert(slot);
    }
  };
  Inventory present;
  add_slots(present.add(*done.root_));
  Inventory returning = present;
  for (const Replaced& replaced : done.replaced_) add_slots(returning.add(*replaced.before));
  for (const Report::Place& place : done.places_) {
    const Replaced& replaced = done.replaced_[place.replaced];
    const bool there = slots.contains(place.slot);
    if (there && place.slot->module() == replaced.after) continue;
    const std::string path = "'" + replaced.paths[place.path] + "'";
    throw StateError("surgery::undo", "the " + replaced.after->type_name() + " that was put at " + path,
                     there ? "another module there" : "a model without that place",
                     "undo later surgeries first");
  }
  report.root_ = done.root_;
  report.places_ = done.places_;
  for (Replaced& replaced : done.replaced_)
    report.replaced_.push_back({replaced.paths, replaced.after, replaced.before});
  for (const auto& [before, after] : done.pairs_) report.pairs_.emplace_back(after, before);
  report.keeps_dtype_ = done.keeps_dtype_;
  const Carried carried{.dtype = !done.keeps_dtype_, .only_changes = true};
  for (const Replaced& replaced : report.replaced_) carry_over(*done.root_, replaced, present, carried);
  exchange(report);
  done = Report();
  return report;
}

Report Report::undo() { return Operation::undo(*this); }

// --- the parameters that a surgery changes: of exchanged modules, matched by name, sharing resolved

namespace {

/// Parameters of `top` and of the wanted modules below it, under their names within `top`.
template <class Wanted>
NamedTensors parameters_of(const Module& top, const Wanted& wanted) {
  NamedTensors result;
  nn::detail::walk(top, [&](const std::string& path, const Module& module) {
    if (&module != &top && !wanted(module)) return false;
    for (const Param* slot : module.param_slots()) {
      if (slot->defined())
        result.emplace_back(path.empty() ? slot->name() : path + "." + slot->name(), slot->get());
    }
    return true;
  });
  return result;
}

/// Leaves those parameters of a list that `chosen` picks, each tensor once.
template <class Chosen>
void retain(NamedTensors& list, PointerSet& listed, const Chosen& chosen) {
  std::erase_if(list, [&](const auto& entry) {
    return !chosen(entry.second) || !listed.insert(&entry.second.impl()).second;
  });
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
        return !staying.contains(&module) && seen.insert(&module).second;
      });
    if (!originals.holds(*entry.after))
      fresh = parameters_of(*entry.after, [&](const Module& module) {
        return !originals.holds(module) && seen.insert(&module).second;
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
