// One deep copy: each module and tensor is copied once, however often it is shared.
#include "mezzo/nn/module/cloning.h"

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"

namespace mezzo::nn {

namespace {
thread_local Cloning* innermost = nullptr;
}

Cloning::Cloning(Parts parts) noexcept : previous_(innermost), parts_(parts) { innermost = this; }
Cloning::~Cloning() { innermost = previous_; }

bool Cloning::is_under_way() noexcept { return innermost != nullptr; }

Cloning& Cloning::current(const std::string& what) {
  if (innermost == nullptr) {
    throw StateError(
        "nn", "modules and slots to keep their identity", "a C++ copy of " + what,
        "pass modules by reference or shared pointer, copy them with clone(), and take a slot's tensor "
        "with get()");
  }
  return *innermost;
}

Module& Cloning::place_of(const Module& original) const {
  const auto found = places_.find(&original);
  if (found == places_.end()) {
    throw StateError("clone", "slots that are members of the module they name as owner", original.type_name(),
                     "pass *this to slots, and call Module's copy constructor in your own");
  }
  return *found->second;
}

std::shared_ptr<Module> Cloning::copy(const Module& original, const detail::Copier& copier) {
  const auto found = modules_.find(&original);
  if (found != modules_.end()) return found->second;
  const auto fits = [&](const detail::Copier& c) { return c.type != nullptr && *c.type == typeid(original); };
  const detail::Copier& known = fits(copier) ? copier : original.copier_;
  if (!fits(known)) {
    throw StateError("clone", "a module whose exact type is known", original.type_name(),
                     "create it with nn::make, or copy it with nn::clone");
  }
  if (known.copy == nullptr) {
    throw StateError("clone", "a copyable class", original.type_name(),
                     "give it a copy constructor; a member of it has none");
  }
  if (nested_ == kMostNested) {
    throw StateError("clone", "a model nested at most " + std::to_string(kMostNested) + " deep",
                     "a deeper one", "build it a second time and load the state_dict of the first");
  }
  ++nested_;
  std::shared_ptr<Module> made = known.copy(original);
  --nested_;
  detail::learn_copier(*made, known);
  modules_.emplace(&original, made);
  return made;
}

Tensor Cloning::copy(const Tensor& original) {
  if (!original.defined() || parts_ == Parts::moved) return original;
  Tensor& made = tensors_[&original.impl()];
  if (!made.defined()) {
    const NoGrad no_grad;
    made = mezzo::clone(original.detach());
    if (original.requires_grad()) made.requires_grad_();
  }
  return made;
}

Module::Module(const Module& other)
    : copier_(other.copier_), region_(other.region_), training_(other.training_) {
  Cloning& cloning = Cloning::current("a module");
  cloning.begin(other, *this);
  if (cloning.moves()) detail::hand_hooks_over(other.hooks_, *this, hooks_);
}

std::shared_ptr<Module> Module::clone() const { return detail::clone(*this, {}); }

std::shared_ptr<Module> detail::moved(const Module& original, const Copier& copier) {
  return Cloning(Cloning::Parts::moved).copy(original, copier);
}

std::shared_ptr<Module> detail::clone(const Module& original, const Copier& copier) {
  return Cloning().copy(original, copier);
}

}  // namespace mezzo::nn
