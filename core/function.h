// A callable of any type behind one signature: what std::function is, for headers that programs include.
// `<functional>` brings hash maps, searchers and all algorithms along, and so costs each file that includes
// it a tenth of a second.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "mezzo/core/memory/pool.h"

namespace mezzo::detail {

/// Throws: std::bad_function_call.
[[noreturn]] void refuse_empty_call();

/// f(arguments...), or a member of the first argument, which is no pointer.
template <class F, class... A>
decltype(auto) invoke(F& f, A&&... arguments) {
  return f(std::forward<A>(arguments)...);
}
template <class M, class C, class First, class... A>
requires std::is_member_function_pointer_v<M C::*>
decltype(auto) invoke(M C::*member, First&& first, A&&... arguments) {
  return (std::forward<First>(first).*member)(std::forward<A>(arguments)...);
}
template <class T>
inline constexpr bool kIsNullable = std::is_constructible_v<T, std::nullptr_t>&& requires(const T& f) {
  f == nullptr;
};

template <class Signature>
class Function;

/// Holds a copy of a callable; copies hold copies of it. Calling an empty one throws std::bad_function_call.
template <class R, class... A>
class Function<R(A...)> {
 public:
  Function() noexcept = default;
  Function(std::nullptr_t) noexcept {}
  /// Empty for an empty std::function and a null pointer.
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Function> &&
           std::is_invocable_r_v<R, std::decay_t<F>&, A...>) Function(F&& f) {
    std::decay_t<F> held(std::forward<F>(f));
    if constexpr (kIsNullable<std::decay_t<F>>) {
      if (held == nullptr) return;
    }
    target_ = new Holder<std::decay_t<F>>(std::move(held));
  }
  Function(const Function& other) : target_(other.target_ == nullptr ? nullptr : other.target_->copy()) {}
  Function(Function&& other) noexcept : target_(std::exchange(other.target_, nullptr)) {}
  Function& operator=(Function other) noexcept {
    std::swap(target_, other.target_);
    return *this;
  }
  ~Function() { delete target_; }

  explicit operator bool() const noexcept { return target_ != nullptr; }
  friend bool operator==(const Function& f, std::nullptr_t) noexcept { return f.target_ == nullptr; }
  R operator()(A... arguments) const {
    if (target_ == nullptr) refuse_empty_call();
    return target_->call(std::forward<A>(arguments)...);
  }

 private:
  struct Target : pool::Pooled {
    virtual ~Target() = default;
    virtual R call(A... arguments) = 0;
    [[nodiscard]] virtual Target* copy() const = 0;
  };
  template <class F>
  struct Holder final : Target {
    explicit Holder(F callable) : f(std::move(callable)) {}
    R call(A... arguments) override {
      if constexpr (std::is_void_v<R>)
        detail::invoke(f, std::forward<A>(arguments)...);
      else
        return detail::invoke(f, std::forward<A>(arguments)...);
    }
    [[nodiscard]] Target* copy() const override { return new Holder(f); }
    F f;
  };

  Target* target_ = nullptr;
};

}  // namespace mezzo::detail
