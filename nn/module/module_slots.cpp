// Slots and the module that owns them: they enter its lists and leave them, and are copied with it.
#include "mezzo/nn/module/slot.h"

#include <algorithm>
#include <new>
#include <unordered_set>

#include "mezzo/core/error.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/nn/module/cloning.h"

namespace mezzo::nn {

namespace {

/// Takes `entry` off a list, looking from the back: members are destroyed in reverse order.
template <class T>
void remove_entry(std::vector<T>& list, T entry) noexcept {
  const auto found = std::find(list.rbegin(), list.rend(), entry);
  if (found != list.rend()) list.erase(std::next(found).base());
}

template <class Slots>
bool has_name(const Slots& slots, const std::string& name) {
  return std::any_of(slots.begin(), slots.end(), [&](const auto* slot) { return slot->name() == name; });
}

/// Whether `module` is `inner` or above it: looked for from there upward, past every slot that holds one.
bool contains(const Module& module, const Module& inner,
              std::span<const ChildSlot* const> (*holders)(const Module&)) {
  if (module.child_slots().empty()) return &module == &inner;
  std::vector<const Module*> open{&inner};
  std::unordered_set<const Module*> seen{&inner};
  while (!open.empty()) {
    const Module* const now = open.back();
    open.pop_back();
    if (now == &module) return true;
    for (const ChildSlot* slot : holders(*now)) {
      if (seen.insert(&slot->owner()).second) open.push_back(&slot->owner());
    }
  }
  return false;
}

/// Drops a module. Modules nested so deep that the stack could overflow are destroyed one after the other,
/// not recursively.
void drop_in_turn(std::shared_ptr<Module> module) noexcept {
  constexpr int kMostNested = 200;
  static constinit thread_local int nested = 0;
  // `waiting` is used only when a module waits, since it allocates: there may be no memory, if that is why a
  // constructor failed.
  static constinit thread_local bool is_used = false;
  static constinit mezzo::detail::PerThread<std::vector<std::shared_ptr<Module>>> waiting;
  if (module == nullptr || module.use_count() > 1) return;
  if (nested >= kMostNested) {
    try {
      waiting.get().push_back(module);
      is_used = true;
      return;
    } catch (const std::bad_alloc&) {  // no room to remember it: now, then
    }
  }
  ++nested;
  module.reset();
  --nested;
  if (nested > 0 || !is_used) return;
  std::vector<std::shared_ptr<Module>>& queue = waiting.get();
  while (!queue.empty()) {
    ++nested;
    std::shared_ptr<Module> next = std::move(queue.back());
    queue.pop_back();
    next.reset();
    --nested;
  }
}

/// How a slot is named in messages.
std::string described(const Slot& slot) {
  return "'" + slot.path() + "' (a member of " + slot.owner().type_name() + ")";
}

}  // namespace

Slot::Slot(Module& owner, std::string name) : owner_(&owner), name_(std::move(name)) {
  if (name_.empty() || name_.find('.') != std::string::npos) {
    throw ValueError("slot", "a name without dots", "'" + name_ + "'", "dots separate the names in a path");
  }
  if (has_name(owner.param_slots(), name_) || has_name(owner.buffer_slots(), name_) ||
      has_name(owner.child_slots(), name_)) {
    throw ValueError("slot", "a name that is new in " + owner.type_name(), "'" + name_ + "' a second time",
                     "rename one of the two");
  }
}

Slot::Slot(const Slot& other)
    : owner_(&Cloning::current("slot '" + other.name_ + "'").place_of(*other.owner_)), name_(other.name_) {}

std::string Slot::path() const {
  const std::string above = owner().path();
  return above.empty() ? name_ : above + "." + name_;
}

Slot::Slot(const Slot& other, MayBeUnowned /*tag*/) : owner_(nullptr), name_(other.name_) {
  if (other.has_owner() && Cloning::is_under_way())
    owner_ = &Cloning::current("a slot").place_of(*other.owner_);
}

void Slot::refuse_no_owner() const {
  throw StateError("slot", "a member of a module", "a copy of '" + name_ + "'",
                   "use the module's own member");
}

TensorSlot::TensorSlot(const TensorSlot& other)
    : Slot(other, MayBeUnowned{}),
      Tensor(has_owner() ? Cloning::current("a slot").copy(other.get()) : other.get()) {}

void TensorSlot::store(Tensor value) {
  if (value.defined() && !value.is_leaf()) {
    throw AutogradError("slot", "a leaf for " + described(*this), "a result of recorded ops",
                        "detach() it, or compute it under NoGrad");
  }
  static_cast<Tensor&>(*this) = std::move(value);
}

// --- parameters

Param::Param(Module& owner, std::string name, Tensor value, const detail::Copier& copier)
    : TensorSlot(owner, std::move(name)) {
  detail::learn_copier(owner, copier);
  set(std::move(value));
  owner.params_.push_back(this);
}

Param::Param(const Param& other) : TensorSlot(other) {
  if (has_owner()) owner().params_.push_back(this);
}

Param::~Param() {
  if (has_owner()) remove_entry(owner().params_, this);
}

void Param::set(Tensor value) {
  const bool trained = !defined() || get().requires_grad();
  if (value.defined() && !is_floating(value.dtype())) {
    throw DTypeError("Param", "a floating tensor for " + described(*this), to_string(value.dtype()),
                     "convert it with to(DType::f32), or use a Buffer");
  }
  store(std::move(value));
  if (defined()) get().requires_grad_(trained);
}

void Param::set(const Param& shared) { store(shared.get()); }

// --- buffers

Buffer::Buffer(Module& owner, std::string name, Tensor value, BufferOptions options,
               const detail::Copier& copier)
    : TensorSlot(owner, std::move(name)), options_(options) {
  detail::learn_copier(owner, copier);
  store(std::move(value));
  owner.buffers_.push_back(this);
}

Buffer::Buffer(const Buffer& other) : TensorSlot(other), options_(other.options_) {
  if (has_owner()) owner().buffers_.push_back(this);
}

Buffer::~Buffer() {
  if (has_owner()) remove_entry(owner().buffers_, this);
}

// --- children

ChildSlot::ChildSlot(Module& owner, std::string name, std::shared_ptr<Module> module,
                     const detail::Copier& of_owner, const detail::Copier& of_module)
    : Slot(owner, std::move(name)) {
  detail::learn_copier(owner, of_owner);
  if (module) detail::learn_copier(*module, of_module);
  require_outside(module.get());
  owner.children_.push_back(this);
  hold(std::move(module));
}

ChildSlot::ChildSlot(const ChildSlot& other) : Slot(other) {
  std::shared_ptr<Module> copied;
  if (other.module_) copied = Cloning::current("a slot").copy(other.module_);
  owner().children_.push_back(this);
  hold(std::move(copied));
}

ChildSlot::~ChildSlot() {
  if (module_) remove_entry(module_->holders_, static_cast<const ChildSlot*>(this));
  remove_entry(owner().children_, this);
  drop_in_turn(std::move(module_));
}

void ChildSlot::hold(std::shared_ptr<Module> module) {
  if (module) module->holders_.push_back(this);
  if (module_) remove_entry(module_->holders_, static_cast<const ChildSlot*>(this));
  module_ = std::move(module);
}

void ChildSlot::require_outside(const Module* module) const {
  const auto holders = [](const Module& of) { return std::span<const ChildSlot* const>(of.holders_); };
  if (module == nullptr || !contains(*module, owner(), holders)) return;
  throw ValueError("slot", "a module outside of the tree above " + described(*this),
                   module->type_name() + ", which contains it", "a model must not contain itself");
}

void ChildSlot::require_fitting(const std::shared_ptr<Module>& module) const {
  if (module == nullptr) return;
  require_outside(module.get());
  require_type(module);
}

void ChildSlot::require_type(const std::shared_ptr<Module>& module) const {
  if (accepts(module.get())) return;
  throw ValueError("replace", "a module of type " + expected_type() + " for " + described(*this),
                   module->type_name(),
                   "declare the slot as Child of a common base, or give the type it asks for");
}

std::shared_ptr<Module> ChildSlot::replace(std::shared_ptr<Module> module) {
  std::shared_ptr<Module> former = module_;
  if (module == former) return former;
  require_fitting(module);
  exchange(std::move(module));
  return former;
}

void ChildSlot::exchange(std::shared_ptr<Module> module) {
  bind(module.get());
  hold(std::move(module));
}

void ChildSlot::refuse_empty() const {
  throw StateError("Child", "a module of type " + expected_type() + " in " + described(*this),
                   "an empty slot", "put one there with replace()");
}

}  // namespace mezzo::nn
