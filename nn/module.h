// Module: the base of everything that has parameters, buffers or submodules. It walks its slots
// (nn/module/slot.h) and so needs no list of its own; the state dict, cloning and printing are in files
// beside it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/core/device.h"
#include "mezzo/core/function.h"
#include "mezzo/nn/module/slot.h"
#include "mezzo/nn/state_dict.h"

namespace mezzo::nn {

/// A function that is called around the calls of a module, see Module::register_forward_hook. Made of any
/// callable with these arguments that returns a tensor or nothing.
template <class... A>
class ModuleHook : public mezzo::detail::Function<Tensor(Module&, A...)> {
 public:
  template <std::invocable<Module&, A...> F>
  ModuleHook(F hook) : mezzo::detail::Function<Tensor(Module&, A...)>(returning(std::move(hook))) {}

 private:
  template <class F>
  static auto returning(F hook) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, Module&, A...>>)
      return [hook = std::move(hook)](Module& module, A... arguments) mutable {
        hook(module, arguments...);
        return Tensor();
      };
    else
      return hook;
  }
};

/// A node of a model:
///   struct Block final : nn::Layer {
///     nn::Child<nn::Linear> fc{*this, "fc", nn::Linear(8, 8)};
///     nn::Param gain{*this, "gain", ones({8})};
///     Tensor forward(const Tensor& x) override { return mul(fc(x), gain); }
///   };
/// Order everywhere is the order of declaration: a module's own slots first, then its children, depth first.
/// Paths are slot names joined by dots. A module or tensor that is reached twice is listed once, under its
/// first path (the state dict alone lists every path). Modules have identity: `nn::Linear(8, 8)` where a part
/// of a model is asked for becomes that part, `make` gives a shared pointer, `clone` copies, and a plain C++
/// copy throws StateError. Const is shallow, as with Tensor. Not safe for
/// concurrent change.
class Module {
 public:
  Module();
  virtual ~Module();
  Module& operator=(const Module&) = delete;

  [[nodiscard]] std::vector<Tensor> parameters() const;
  [[nodiscard]] NamedTensors named_parameters() const;
  [[nodiscard]] NamedTensors named_buffers() const;
  /// This module (path "") and all below it.
  [[nodiscard]] std::vector<std::pair<std::string, Module*>> named_modules();
  [[nodiscard]] std::vector<std::pair<std::string, const Module*>> named_modules() const;
  /// The direct submodules, each once.
  [[nodiscard]] std::vector<std::shared_ptr<Module>> children() const;
  /// Elements in all parameters.
  [[nodiscard]] std::int64_t num_parameters() const;

  /// Sets training or evaluation mode of this module and all below it.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  [[nodiscard]] bool is_training() const noexcept { return training_; }
  /// Sets requires_grad of all parameters; gradients that are there stay.
  Module& requires_grad_(bool on = true);
  /// Drops all gradients.
  void zero_grad();

  /// Moves all parameters and buffers to `device`, or converts floating tensors to `dtype` (one rounding).
  /// The tensors keep their identity, so optimizers and tied weights hold on to them: memory, dtype and
  /// device change behind the handle, versions grow, gradients come along without history, cached 16-bit
  /// copies are dropped. Views of the old memory, such as an earlier state dict, keep the old values, and a
  /// graph recorded before must not be run backward: where it saved a parameter it throws. An optimizer's own
  /// state is not converted. A device that is not there or a dtype that is not floating changes nothing
  /// (DeviceError, DTypeError); tensors are converted one by one, so OutOfMemoryError may leave some done.
  Module& to(Device device);
  Module& to(DType dtype);

  /// Parameters and persistent buffers by path, without history, sharing memory with the module. A tensor
  /// that has several paths is listed under each, as PyTorch does.
  [[nodiscard]] NamedTensors state_dict() const;
  /// Copies values into the module's tensors, which keep identity, dtype and device. Throws: ValueError with
  /// the whole report, and changes nothing, when a shape or dtype differs (`cast` allows dtypes), a name
  /// occurs twice, a tensor is undefined, or, if `strict`, names are missing or unexpected. Of a tensor with
  /// several paths one is enough; the last one given counts.
  LoadReport load_state_dict(const NamedTensors& state, const LoadOptions& options = {});

  /// A deep copy: the class is copied member by member (its C++ copy constructor), slots get copies of their
  /// tensors and submodules, sharing within the model is kept, and so are mode and requires_grad. Gradients
  /// and hooks are not copied; tensors outside of slots stay shared, and pointers into the module keep
  /// pointing into the original. Throws: StateError when a type is not copyable or not known exactly (made by
  /// other means than `make`).
  [[nodiscard]] std::shared_ptr<Module> clone() const;

  // --- hooks (nn/module/hooks.cpp)
  // Called in every call of this module (`net(x)`, `child(x)`; not `net.forward(x)`), in the order in which
  // they were registered. `input` is the first argument where that is a tensor; otherwise it is undefined,
  // and nothing takes its place. `output` is the first tensor of the result. The result of a hook takes the
  // place of its last argument; an undefined tensor or nothing leaves it. Each returns an id for
  // `remove_hook`. Source: torch.nn.Module.
  /// Before forward: hook(module, input).
  std::size_t register_forward_pre_hook(const ModuleHook<const Tensor&>& hook);
  /// After forward: hook(module, input, output).
  std::size_t register_forward_hook(const ModuleHook<const Tensor&, const Tensor&>& hook);
  /// In every backward through a recorded call: hook(module, grad_input, grad_output), as soon as both are
  /// complete. It may return another gradient of the input, of its shape, dtype and device. grad_input is
  /// undefined where the input needs none. forward is given a view of the input, so it must not write into
  /// it.
  std::size_t register_full_backward_hook(const ModuleHook<const Tensor&, const Tensor&>& hook);
  /// Nothing happens for an id that is not there.
  void remove_hook(std::size_t id);

  /// Names from the root down to this module, "" for a root. Of several places the oldest.
  [[nodiscard]] std::string path() const;
  /// Type and path, for messages: "Linear 'encoder.fc'"; of a root the type.
  [[nodiscard]] std::string described() const;
  /// The class as printed; by default its C++ name without namespaces.
  [[nodiscard]] virtual std::string type_name() const;
  /// The text between the parentheses when printed: "in_features=4, out_features=3".
  [[nodiscard]] virtual std::string extra_repr() const;

  /// The slots, in order of declaration.
  [[nodiscard]] std::span<Param* const> param_slots() const noexcept;
  [[nodiscard]] std::span<Buffer* const> buffer_slots() const noexcept;
  [[nodiscard]] std::span<ChildSlot* const> child_slots() const noexcept;

 protected:
  /// Only for `clone`, whose copies of derived classes pass through here; StateError otherwise.
  Module(const Module& other);

 private:
  friend class Param;
  friend class Buffer;
  friend class ChildSlot;
  friend class Cloning;
  friend class detail::HookedCall;
  friend class detail::RunningCall;
  friend const std::shared_ptr<detail::CallRegion>& detail::call_region(const Module& module) noexcept;
  friend void detail::set_call_region(Module& module, std::shared_ptr<detail::CallRegion> region) noexcept;
  friend class surgery::Operation;  // sets the mode of replacements
  friend void detail::learn_copier(Module& module, const detail::Copier& copier) noexcept;

  std::vector<Param*> params_;
  std::vector<Buffer*> buffers_;
  std::vector<ChildSlot*> children_;
  std::vector<const ChildSlot*> holders_;  // slots that hold this module, oldest first
  detail::Copier copier_;
  Ref<RefCounted> hooks_;  // made with the first hook
  std::shared_ptr<detail::CallRegion> region_;
  bool training_ = true;
};

/// A module that maps one tensor to one tensor.
class Layer : public Module {
 public:
  Layer() = default;
  Layer(const Layer& other) = default;
  ~Layer() override;
  [[nodiscard]] virtual Tensor forward(const Tensor& x) = 0;
  /// forward(x), seen by observers (nn/call.h).
  [[nodiscard]] Tensor operator()(const Tensor& x) { return call(*this, x); }
};

/// For modules that take the place of others: the constructor that has it as last argument shares parameters
/// and buffers with the module it is given.
struct ShareTensors {};

/// A module of type T, made from T's constructor arguments. (T's implicit copy constructor must compile, or
/// be deleted: `T(const T&) = delete` makes a type that `clone` refuses.)
template <std::derived_from<Module> T, class... Args>
[[nodiscard]] std::shared_ptr<T> make(Args&&... args) {
  auto module = std::make_shared<T>(std::forward<Args>(args)...);
  detail::learn_copier(*module, detail::copier_of<T>());
  return module;
}

// make() for types with a member Options, which may stand between braces as the last argument:
// `make<nn::Conv2d>(1, 32, 3, {.padding = 1})`.
template <std::derived_from<Module> T>
[[nodiscard]] std::shared_ptr<T> make(const typename T::Options& options) {
  return make<T, const typename T::Options&>(options);
}
template <std::derived_from<Module> T, class A>
[[nodiscard]] std::shared_ptr<T> make(A&& a, const typename T::Options& options) {
  return make<T, A, const typename T::Options&>(std::forward<A>(a), options);
}
template <std::derived_from<Module> T, class A, class B>
[[nodiscard]] std::shared_ptr<T> make(A&& a, B&& b, const typename T::Options& options) {
  return make<T, A, B, const typename T::Options&>(std::forward<A>(a), std::forward<B>(b), options);
}
template <std::derived_from<Module> T, class A, class B, class C>
[[nodiscard]] std::shared_ptr<T> make(A&& a, B&& b, C&& c, const typename T::Options& options) {
  return make<T, A, B, C, const typename T::Options&>(std::forward<A>(a), std::forward<B>(b),
                                                      std::forward<C>(c), options);
}

/// A module that the program keeps, or shares.
class ModelRef {
 public:
  ModelRef() = default;
  template <std::derived_from<Module> M>
  ModelRef(M& model) : module_(&model), layer_(as_layer(model)) {}
  template <std::derived_from<Module> M>
  ModelRef(std::shared_ptr<M> model) : owner_(model), module_(model.get()) {
    if (model != nullptr) layer_ = as_layer(*model);
  }
  [[nodiscard]] Module* module() const noexcept { return module_; }
  /// nullptr for a model that takes other things than one tensor.
  [[nodiscard]] Layer* layer() const noexcept { return layer_; }

 private:
  static Layer* as_layer(Module& module) { return dynamic_cast<Layer*>(&module); }

  std::shared_ptr<Module> owner_;
  Module* module_ = nullptr;
  Layer* layer_ = nullptr;
};

namespace detail {
[[nodiscard]] std::shared_ptr<Module> clone(const Module& original, const Copier& copier);
}

/// `Module::clone` with the type kept.
template <std::derived_from<Module> T>
[[nodiscard]] std::shared_ptr<T> clone(const T& module) {
  return std::dynamic_pointer_cast<T>(detail::clone(module, detail::copier_of<T>()));
}

/// The module as a tree of lines, as PyTorch prints it: `(0): Linear(in_features=4, out_features=3,
/// bias=true)`.
[[nodiscard]] std::string to_string(const Module& module);
std::ostream& operator<<(std::ostream& stream, const Module& module);

}  // namespace mezzo::nn
