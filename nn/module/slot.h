// Slots: the members a module is made of. A slot is at once the member that forward uses and its entry in the
// module's list, so there is one copy of the truth: what is put into a slot is what forward, parameters(),
// the state dict, printing and surgery see from then on, and no member can be forgotten.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "mezzo/core/tensor.h"
#include "mezzo/nn/call.h"

namespace mezzo::nn {

namespace surgery {
class Operation;
}

namespace detail {

/// How a module of one exact type is copied; learnt wherever that type is known (`make`, slots, `clone`).
struct Copier {
  const std::type_info* type = nullptr;
  std::shared_ptr<Module> (*copy)(const Module&) = nullptr;  ///< none: the type is not copyable
};

template <class T>
[[nodiscard]] std::shared_ptr<Module> copy_as(const Module& original) {
  return std::make_shared<T>(dynamic_cast<const T&>(original));
}

/// A module that nobody has named yet, in memory of its own: the same tensors and children. Throws:
/// StateError for a type that is not copyable.
[[nodiscard]] std::shared_ptr<Module> moved(const Module& original, const Copier& copier);

template <class T>
[[nodiscard]] Copier copier_of() {
  if constexpr (std::is_abstract_v<T>)
    return {};
  else if constexpr (std::is_copy_constructible_v<T>)
    return {&typeid(T), &copy_as<T>};
  else
    return {&typeid(T), nullptr};
}

/// Notes how `module` is copied, if `copier` is for its exact type.
void learn_copier(Module& module, const Copier& copier) noexcept;

/// A module as an expression, `nn::Linear(4, 3)`, as what `make` returns.
template <class T>
[[nodiscard]] auto shared(T&& module) {
  using M = std::remove_cvref_t<T>;
  static_assert(!std::is_lvalue_reference_v<T>,
                "mezzo: a module with a name of its own cannot become a part of another one; make it by "
                "nn::make and pass the pointer, or write nn::Linear(4, 3) where it is used");
  static_assert(std::is_copy_constructible_v<M>,
                "mezzo: this module cannot become a part of another one, as it has no copy constructor");
  return std::static_pointer_cast<M>(moved(module, copier_of<M>()));
}
/// A module as an expression, and not a pointer to one.
template <class U, class T>
concept ModuleValue = std::derived_from<std::remove_cvref_t<U>, T>;

/// Name of a type as printed: without namespaces and enclosing scopes.
[[nodiscard]] std::string type_text(const std::type_info& type);

}  // namespace detail

/// Base of all slots: a name, and the module they are members of. Names are unique within a module, not
/// empty, and hold no dot (ValueError otherwise). Slots have identity: only `Module::clone()` copies them.
/// For a growing list of slots use SlotList, which never moves its elements.
class Slot {
 public:
  Slot& operator=(const Slot&) = delete;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Throws: StateError for the copy of a slot (TensorSlot).
  [[nodiscard]] Module& owner() const {
    if (owner_ == nullptr) refuse_no_owner();
    return *owner_;
  }
  /// Names from the root down to this slot, joined by dots: "encoder.fc.weight".
  [[nodiscard]] std::string path() const;

 protected:
  Slot(Module& owner, std::string name);
  Slot(const Slot& other);
  /// A copy that belongs to the new module during Module::clone(), and to no module otherwise.
  struct MayBeUnowned {};
  Slot(const Slot& other, MayBeUnowned /*tag*/);
  ~Slot() = default;
  [[nodiscard]] bool has_owner() const noexcept { return owner_ != nullptr; }

 private:
  [[noreturn]] void refuse_no_owner() const;
  Module* owner_;
  std::string name_;
};

/// A slot that is its tensor: `layer.weight.shape()`, `sum(layer.weight)`. An undefined tensor means "absent"
/// (no bias): walks skip it. `auto w = layer.weight` names the tensor that is there now, and is no member of
/// the module.
class TensorSlot : public Slot, public Tensor {
 public:
  TensorSlot& operator=(const TensorSlot&) = delete;
  const Tensor* operator->() const noexcept { return this; }
  [[nodiscard]] const Tensor& get() const noexcept { return *this; }

 protected:
  TensorSlot(Module& owner, std::string name) : Slot(owner, std::move(name)) {}
  TensorSlot(const TensorSlot& other);
  ~TensorSlot() = default;
  /// Stores a leaf; AutogradError for a result of recorded ops.
  void store(Tensor value);
};

/// A trainable tensor: `nn::Param gain{*this, "gain", ones({dim})};`. The tensor must be a floating leaf
/// (DTypeError, AutogradError).
class Param final : public TensorSlot {
 public:
  /// `value` is made to require grad.
  template <class M>
  Param(M& owner, std::string name, Tensor value)
      : Param(owner, std::move(name), std::move(value), detail::copier_of<M>()) {}
  /// Shares the tensor of another slot (weight tying), as it is.
  template <class M>
  Param(M& owner, std::string name, const Param& shared)
      : Param(owner, std::move(name), Tensor(), detail::copier_of<M>()) {
    set(shared);
  }
  Param(const Param& other);
  ~Param();

  /// Puts another tensor in the place of this one and gives it this one's requires_grad (true where there was
  /// none).
  void set(Tensor value);
  /// Shares the tensor of another slot as it is, requires_grad included.
  void set(const Param& shared);

 private:
  Param(Module& owner, std::string name, Tensor value, const detail::Copier& copier);
};

/// How a buffer is kept.
struct BufferOptions {
  bool persistent = true;  ///< part of the state dict
};

/// A tensor that is state but not trained (running statistics, masks); any dtype. Must be a leaf
/// (AutogradError).
class Buffer final : public TensorSlot {
 public:
  template <class M>
  Buffer(M& owner, std::string name, Tensor value, BufferOptions options = {})
      : Buffer(owner, std::move(name), std::move(value), options, detail::copier_of<M>()) {}
  Buffer(const Buffer& other);
  ~Buffer();

  /// Puts another tensor in the place of this one.
  void set(Tensor value) { store(std::move(value)); }
  [[nodiscard]] bool is_persistent() const noexcept { return options_.persistent; }

 private:
  Buffer(Module& owner, std::string name, Tensor value, BufferOptions options, const detail::Copier& copier);
  BufferOptions options_;
};

/// A slot that holds a module of whatever type; what walks and surgery work with. May be empty: walks skip
/// it.
class ChildSlot : public Slot {
 public:
  [[nodiscard]] const std::shared_ptr<Module>& module() const noexcept { return module_; }
  /// Puts another module (or nullptr) in the place of this one, seen at once by everything, and returns what
  /// was here. Throws: ValueError, and changes nothing, when the module is not of the slot's type or contains
  /// the slot itself.
  std::shared_ptr<Module> replace(std::shared_ptr<Module> module);
  template <detail::ModuleValue<Module> U>
  std::shared_ptr<Module> replace(U&& module) {
    return replace(std::shared_ptr<Module>(detail::shared<U>(std::forward<U>(module))));
  }
  /// Throws: what `replace` would throw.
  void require_fitting(const std::shared_ptr<Module>& module) const;
  /// The type the slot asks for, as printed.
  [[nodiscard]] virtual std::string expected_type() const = 0;

 protected:
  ChildSlot(Module& owner, std::string name, std::shared_ptr<Module> module, const detail::Copier& of_owner,
            const detail::Copier& of_module);
  ChildSlot(const ChildSlot& other);
  virtual ~ChildSlot();
  /// Whether a module is of the slot's type.
  [[nodiscard]] virtual bool accepts(Module* module) const noexcept = 0;
  /// Takes note of a module that is accepted.
  virtual void bind(Module* module) noexcept = 0;
  [[noreturn]] void refuse_empty() const;

 private:
  friend class surgery::Operation;  // looks once for a whole surgery that no module contains itself
  /// Throws: ValueError when the module is not of the slot's type.
  void require_type(const std::shared_ptr<Module>& module) const;
  /// Throws: ValueError for a module that is the owner or above it.
  void require_outside(const Module* module) const;
  /// `replace` without checks.
  void exchange(std::shared_ptr<Module> module);
  void hold(std::shared_ptr<Module> module);
  std::shared_ptr<Module> module_;
};

/// A submodule of type T or derived from it: `nn::Child<nn::Linear> fc{*this, "fc", nn::Linear(4, 3)};`.
template <class T>
class Child final : public ChildSlot {
 public:
  template <class M, std::derived_from<T> U>
  Child(M& owner, std::string name, std::shared_ptr<U> module)
      : ChildSlot(owner, std::move(name), module, detail::copier_of<M>(), detail::copier_of<U>()),
        typed_(module.get()) {}
  /// From a module as an expression: `nn::Child<nn::Linear> fc{*this, "fc", nn::Linear(4, 3)};`.
  template <class M, detail::ModuleValue<T> U>
  Child(M& owner, std::string name, U&& module)
      : Child(owner, std::move(name), detail::shared<U>(std::forward<U>(module))) {}
  /// An empty slot.
  template <class M>
  Child(M& owner, std::string name, std::nullptr_t = nullptr)
      : ChildSlot(owner, std::move(name), nullptr, detail::copier_of<M>(), {}) {}
  Child(const Child& other) : ChildSlot(other), typed_(dynamic_cast<T*>(module().get())) {}

  /// Calls the module, as `fc(x)`, seen by observers (nn/call.h); StateError when the slot is empty.
  template <class... A>
  requires requires(T& module, A&&... arguments) { module.forward(std::forward<A>(arguments)...); }
  auto operator()(A&&... arguments) const { return call(*operator->(), std::forward<A>(arguments)...); }
  /// The module; StateError when the slot is empty.
  T* operator->() const {
    if (typed_ == nullptr) refuse_empty();
    return typed_;
  }
  T& operator*() const { return *operator->(); }
  explicit operator bool() const noexcept { return typed_ != nullptr; }
  [[nodiscard]] std::shared_ptr<T> get() const { return {module(), typed_}; }
  [[nodiscard]] std::string expected_type() const override { return detail::type_text(typeid(T)); }

 private:
  [[nodiscard]] bool accepts(Module* module) const noexcept override {
    return module == nullptr || dynamic_cast<T*>(module) != nullptr;
  }
  void bind(Module* module) noexcept override { typed_ = dynamic_cast<T*>(module); }
  T* typed_ = nullptr;
};

}  // namespace mezzo::nn
