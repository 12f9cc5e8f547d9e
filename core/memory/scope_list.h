// The open scopes of a thread. Guards that programs hold may end in any order, on any thread, and after the
// thread that made them. A guard that ends on another thread marks its scope; its own thread takes marked
// scopes off its list before it looks at it again, so no thread writes to another one's list. Internal.
#pragma once

#include <atomic>
#include <cstdint>

#include "mezzo/core/memory/per_thread.h"
#include "mezzo/core/memory/pool.h"
#include "mezzo/core/scope.h"

namespace mezzo::detail {

/// How many scopes ended on another thread than their own since the process began.
inline constinit std::atomic<std::uint32_t> scopes_ended_elsewhere{0};

enum class ScopeState : std::uint8_t {
  open,
  ended,     ///< on another thread: its own one frees it
  orphaned,  ///< its thread is gone: its guard frees it
};

template <class T>
struct OpenScope final : Scope<T>, pool::Pooled {
  std::atomic<ScopeState> state{ScopeState::open};
  const void* owner = nullptr;        ///< the list of its thread
  std::uint64_t number = 0;           ///< for kinds whose scopes are looked for later
  void (*gone)() noexcept = nullptr;  ///< called on its thread when it has left the list
};

/// The scopes of one kind of one thread, newest first. To be thread_local or a PerThread, and one for each
/// type T.
template <class T>
class ScopeList : NoCopy {
 public:
  constexpr ScopeList() noexcept = default;

  /// The scope that counts; nullptr: none is open.
  [[nodiscard]] Scope<T>* newest() noexcept {
    if (scopes_ended_elsewhere.load(std::memory_order_relaxed) != seen_) [[unlikely]]
      settle();
    return newest_;
  }
  [[nodiscard]] T value_or(T base) noexcept {
    const Scope<T>* const scope = newest();
    return scope != nullptr ? scope->value : base;
  }

  /// For scopes of the library's own, which are locals of the calling function.
  void push(Scope<T>& scope) noexcept {
    scope.older = newest();
    scope.value = value_of(scope);
    newest_ = &scope;
  }
  void pop(Scope<T>& scope) noexcept {
    if (newest_ == &scope)
      newest_ = scope.older;
    else
      unlink(scope);
  }

  /// For guards of programs.
  [[nodiscard]] OpenScope<T>* begin(const T& own, typename Scope<T>::Derive derive = nullptr);
  /// On the scope's thread or on any other, during its life or after it.
  void end(OpenScope<T>* scope) noexcept;

 private:
  /// Takes the list apart when the thread ends.
  struct Leaver {
    ScopeList* list = nullptr;
    ~Leaver() {
      if (list != nullptr) list->leave();
    }
  };
  static inline constinit PerThread<Leaver> leavers;

  [[nodiscard]] static T value_of(const Scope<T>& scope) noexcept {
    if (scope.derive == nullptr) return scope.own;
    return scope.derive(scope.older != nullptr ? scope.older->value : T{}, scope.own);
  }
  void unlink(Scope<T>& scope) noexcept;
  /// Values of the scopes down to `last`, oldest first: what each derives from may have changed.
  static void derive_again(Scope<T>* scope, const Scope<T>* last) noexcept {
    if (scope == nullptr || scope == last) return;
    derive_again(scope->older, last);
    scope->value = value_of(*scope);
  }
  void settle() noexcept;
  void leave() noexcept;

  Scope<T>* newest_ = nullptr;
  std::uint32_t seen_ = 0;
  bool leaves_ = false;
};

template <class T>
OpenScope<T>* ScopeList<T>::begin(const T& own, typename Scope<T>::Derive derive) {
  if (!leaves_) {
    leavers.get().list = this;
    leaves_ = true;
  }
  auto* const scope = new OpenScope<T>;
  scope->own = own;
  scope->derive = derive;
  scope->shared = true;
  scope->owner = this;
  push(*scope);
  return scope;
}

template <class T>
void ScopeList<T>::end(OpenScope<T>* scope) noexcept {
  // The list of a thread that is gone may have had the address of the calling thread's list.
  if (scope->owner == this && scope->state.load(std::memory_order_acquire) == ScopeState::open) {
    pop(*scope);
    const auto gone = scope->gone;
    delete scope;
    if (gone != nullptr) gone();
    return;
  }
  ScopeState expected = ScopeState::open;
  if (scope->state.compare_exchange_strong(expected, ScopeState::ended, std::memory_order_acq_rel))
    scopes_ended_elsewhere.fetch_add(1, std::memory_order_acq_rel);
  else
    delete scope;
}

template <class T>
void ScopeList<T>::unlink(Scope<T>& scope) noexcept {
  Scope<T>** at = &newest_;
  while (*at != nullptr && *at != &scope) at = &(*at)->older;
  if (*at == nullptr) return;  // begun by a thread whose list is taken apart
  *at = scope.older;
  derive_again(newest_, scope.older);
}

template <class T>
void ScopeList<T>::settle() noexcept {
  seen_ = scopes_ended_elsewhere.load(std::memory_order_acquire);
  for (Scope<T>* scope = newest_; scope != nullptr;) {
    auto* const open = scope->shared ? static_cast<OpenScope<T>*>(scope) : nullptr;
    if (open == nullptr || open->state.load(std::memory_order_acquire) != ScopeState::ended) {
      scope = scope->older;
      continue;
    }
    unlink(*open);
    const auto gone = open->gone;
    delete open;
    if (gone != nullptr) gone();
    scope = newest_;  // whatever `gone` did to the list
  }
}

template <class T>
void ScopeList<T>::leave() noexcept {
  for (Scope<T>* scope = newest_; scope != nullptr;) {
    Scope<T>* const older = scope->older;
    if (scope->shared) {
      auto* const open = static_cast<OpenScope<T>*>(scope);
      if (open->state.exchange(ScopeState::orphaned, std::memory_order_acq_rel) == ScopeState::ended)
        delete open;
    }
    scope = older;
  }
  newest_ = nullptr;
}

template <class T, auto kScopes>
ScopeGuard<T, kScopes>::ScopeGuard(const T& value) : scope_(kScopes().begin(value)) {}
template <class T, auto kScopes>
ScopeGuard<T, kScopes>::~ScopeGuard() {
  kScopes().end(scope_);
}
template <class T, auto kScopes>
T ScopeGuard<T, kScopes>::outer_or(T base) const noexcept {
  static_cast<void>(kScopes().newest());  // scopes that ended on other threads leave the list
  return scope_->older != nullptr ? scope_->older->value : base;
}

template <class T, auto kScopes>
LocalScope<T, kScopes>::LocalScope(const T& value) noexcept : scope_{.own = value} {
  kScopes().push(scope_);
}
template <class T, auto kScopes>
LocalScope<T, kScopes>::~LocalScope() {
  kScopes().pop(scope_);
}

}  // namespace mezzo::detail
