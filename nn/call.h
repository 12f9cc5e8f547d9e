// Calling a module: `fc(x)` is `fc->forward(x)` seen by whoever watches the calls of this thread, which is
// how a model summary learns what each module made, and errors where they were thrown.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/error.h"
#include "mezzo/core/function.h"
#include "mezzo/core/scope.h"
#include "mezzo/core/tensor.h"

namespace mezzo::nn {

class Module;

/// Is called for the modules that run on this thread. Calls nest; `enter` and `leave` come in pairs, but for
/// a call in which the observer ends or throws from `enter`. When an observer that passes calls on ends
/// inside a call, the observers that got `enter` from it still get `leave`.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  /// Before forward.
  virtual void enter(const Module& module) = 0;
  /// After forward. `output`: what it returned, of several tensors the first, valid during this call; nullptr
  /// when it threw or returned something that holds no such tensor. Must not throw.
  virtual void leave(const Module& module, const Tensor* output) = 0;
};

namespace detail {
/// Of the calling thread.
[[nodiscard]] mezzo::detail::ScopeList<CallObserver*>& call_observers() noexcept;
}  // namespace detail

}  // namespace mezzo::nn

extern template class mezzo::detail::ScopeGuard<mezzo::nn::CallObserver*, mezzo::nn::detail::call_observers>;

namespace mezzo::nn {

/// Installs an observer on its thread while it lives; of several the newest that lives is called. They may
/// end in any order, in a call that they watch, on another thread while no module runs on the thread that
/// they watch, and after that thread. The observer must live as long as its guard.
class CallObserverGuard : mezzo::detail::ScopeGuard<CallObserver*, detail::call_observers> {
 public:
  explicit CallObserverGuard(CallObserver& observer);
  /// The observer that was there before this one and still lives, or nullptr: observers that nest pass their
  /// calls on to it. Ask anew in each call, on the guard's thread, as an older observer may end first.
  [[nodiscard]] CallObserver* outer() const noexcept { return outer_or(nullptr); }
};

namespace detail {

/// The observer of the calling thread; nullptr: none.
[[nodiscard]] CallObserver* call_observer() noexcept;

/// The first tensor of a result: itself, its member `output` or `h`, or what is first in it when it is a pair
/// or tuple; nullptr: none.
template <class R>
[[nodiscard]] const Tensor* first_tensor(const R& result) noexcept {
  if constexpr (std::convertible_to<const R*, const Tensor*>)
    return &result;
  else if constexpr (requires {
                       { &result.output } -> std::convertible_to<const Tensor*>;
                     })
    return &result.output;
  else if constexpr (requires {
                       { &result.h } -> std::convertible_to<const Tensor*>;
                     })
    return &result.h;
  else if constexpr (requires { requires(std::tuple_size<R>::value > 0); })
    return first_tensor(std::get<0>(result));
  else
    return nullptr;
}

/// One watched call, if there is an observer. It ends with `returned` or, when forward throws, with its
/// scope. The place in the tree of modules (autograd/progress.h) is then what it was before.
class WatchedCall : mezzo::detail::NoCopy {
 public:
  explicit WatchedCall(const Module& module);
  ~WatchedCall() {
    if (runs_) leave(nullptr);
  }

  void returned(const Tensor* output) noexcept {
    if (std::exchange(runs_, false)) leave(output);
  }

 private:
  void leave(const Tensor* output) noexcept;

  const Module& module_;
  std::uint64_t number_ = 0;  ///< of the scope of the observer that was told
  const std::string* place_ = nullptr;
  bool runs_ = false;
};

/// A scope that opens around each call of the modules that have it (amp::ModulePrecision). Copies of a module
/// share it, and so does what takes the module's place by surgery.
class CallRegion {
 public:
  virtual ~CallRegion() = default;
  /// Opens it on this thread; nullptr: it has ended, nothing opens.
  [[nodiscard]] virtual mezzo::detail::OpenScope<InputHookState>* begin() const = 0;
  /// For tables: "f32", "fp8"; empty: it has ended.
  [[nodiscard]] virtual std::string described() const = 0;
};
/// The region of a module; nullptr: none.
[[nodiscard]] const std::shared_ptr<CallRegion>& call_region(const Module& module) noexcept;
void set_call_region(Module& module, std::shared_ptr<CallRegion> region) noexcept;

/// A call of a module while it runs, in the module's region. Warns once of a module called in another one's
/// forward that is no part of any: a plain member, or an element of a std::vector.
class RunningCall : mezzo::detail::NoCopy {
 public:
  explicit RunningCall(const Module& module);
  ~RunningCall();
  /// Names the module in an error that ends the call.
  void ends_with(Error& error) const;
  [[nodiscard]] const Module& module() const noexcept { return module_; }
  [[nodiscard]] const RunningCall* outer() const noexcept { return outer_; }

 private:
  const Module& module_;
  const RunningCall* outer_;
  mezzo::detail::OpenScope<InputHookState>* region_ = nullptr;
  Activity activity_;
};

/// The modules of the innermost and the outermost call on this thread; nullptr: none runs.
[[nodiscard]] const Module* innermost_call() noexcept;
[[nodiscard]] const Module* outermost_call() noexcept;

/// The hooks of a module around one call, and whether it is checkpointed (nn/checkpoint.h).
class HookedCall {
 public:
  [[nodiscard]] static bool is_needed(const Module& module) noexcept;
  /// Runs the hooks before forward; `input` may be nullptr.
  HookedCall(const Module& module, const Tensor* input);
  /// The tensor that forward gets.
  [[nodiscard]] const Tensor& input() const noexcept { return input_; }
  /// Runs the hooks after forward, which may put another tensor there. Nothing happens for nullptr.
  void returned(Tensor* output);

  [[nodiscard]] static bool is_checkpointed(const Module& module) noexcept;
  static void set_checkpointed(Module& module, bool on);
  /// Whether this call is to go by `checkpointed`.
  [[nodiscard]] bool is_checkpointed() const noexcept;
  /// forward(input()) in an autograd::checkpoint.
  [[nodiscard]] Tensor checkpointed(mezzo::detail::Function<Tensor(const Tensor&)> forward) const;

 private:
  Module& module_;
  Ref<RefCounted> hooks_;  ///< the module's, which a hook may remove
  Tensor input_;
  bool watches_backward_ = false;
};

/// Whether a copy of an argument can take its place in a later call: nothing that forward might write to, and
/// nothing that shows what is owned elsewhere.
template <class A>
inline constexpr bool kCanBeKept =
    std::copy_constructible<std::decay_t<A>> &&
    !(std::is_lvalue_reference_v<A> &&
      !std::is_const_v<std::remove_reference_t<A>>)&&!std::is_pointer_v<std::decay_t<A>> &&
    !std::same_as<std::decay_t<A>, std::span<const Tensor>>;

/// module.forward(first, rest...) between the hooks.
template <class M>
auto forward_hooked(M& module) {
  HookedCall hooks(module, nullptr);
  auto result = module.forward();
  hooks.returned(const_cast<Tensor*>(first_tensor(result)));
  return result;
}
template <class M, class First, class... Rest>
auto forward_hooked(M& module, First&& first, Rest&&... rest) {
  constexpr bool takes_tensor = std::convertible_to<std::remove_reference_t<First>*, const Tensor*>;
  const Tensor* input = nullptr;
  if constexpr (takes_tensor) input = &first;
  HookedCall hooks(module, input);
  using Result = decltype(module.forward(std::forward<First>(first), std::forward<Rest>(rest)...));
  auto result = [&] {
    if constexpr (takes_tensor && std::same_as<Result, Tensor> && (kCanBeKept<Rest&&> && ...)) {
      if (hooks.is_checkpointed()) {
        return hooks.checkpointed([&module, ... kept = std::decay_t<Rest>(rest)](const Tensor& x) {
          const RunningCall running(module);  // backward runs it again, outside of the call
          return module.forward(x, kept...);
        });
      }
    }
    if constexpr (takes_tensor)
      return module.forward(hooks.input(), std::forward<Rest>(rest)...);
    else
      return module.forward(std::forward<First>(first), std::forward<Rest>(rest)...);
  }();
  hooks.returned(const_cast<Tensor*>(first_tensor(result)));
  return result;
}

/// The call between the module's hooks, told to the observer.
template <class M, class... A>
auto call(M& module, A&&... arguments) {
  const bool is_hooked = HookedCall::is_needed(module);
  if (!is_hooked && call_observer() == nullptr) return module.forward(std::forward<A>(arguments)...);
  WatchedCall watched(module);
  if constexpr (std::is_void_v<decltype(module.forward(std::forward<A>(arguments)...))>) {
    module.forward(std::forward<A>(arguments)...);
  } else {
    auto result = is_hooked ? forward_hooked(module, std::forward<A>(arguments)...)
                            : module.forward(std::forward<A>(arguments)...);
    // Here and not in a destructor, for which the result might be gone: locals end in reverse order.
    watched.returned(first_tensor(result));
    return result;
  }
}

}  // namespace detail

/// module.forward(arguments...) between the module's hooks, told to the observer of this thread. The call
/// that `net(x)` and `child(x)` make; for modules that have no call operator of their own.
template <class M, class... A>
requires requires(M& module, A&&... arguments) { module.forward(std::forward<A>(arguments)...); }
auto call(M& module, A&&... arguments) {
  const detail::RunningCall running(module);
  try {
    return detail::call(module, std::forward<A>(arguments)...);
  } catch (Error& error) {
    running.ends_with(error);
    throw;
  }
}

}  // namespace mezzo::nn
