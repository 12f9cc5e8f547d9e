// The open scopes of a thread (recording, autocast, observers, ...), one list per kind, and the guards that
// hold them; NoCopy, the base of all guards. The lists are in core/memory/scope_list.h.
#pragma once

#include "mezzo/core/host_device.h"

namespace mezzo::detail {

namespace bases {  // of its own, so that arguments of derived types bring no function of detail into a call
/// The base of what is neither copied nor moved, as guards and owners of a resource.
class NoCopy {
 public:
  NoCopy(const NoCopy&) = delete;
  NoCopy& operator=(const NoCopy&) = delete;

 protected:
  constexpr NoCopy() noexcept = default;
  ~NoCopy() = default;
};
}  // namespace bases
using bases::NoCopy;

/// One open scope of a kind: recording, autocast, an observer, ... The newest of a thread counts.
template <class T>
struct Scope {
  /// For a scope that changes only a part of the state: makes its state from the one before it.
  using Derive = T (*)(const T& before, const T& own) noexcept;

  T own{};    ///< what it was begun with
  T value{};  ///< what holds in it
  Scope* older = nullptr;
  Derive derive = nullptr;
  bool shared = false;  ///< an OpenScope, which another thread may end
};

/// The scope of a guard that programs hold, on the heap: it may end in any order and on any thread.
template <class T>
struct OpenScope;
template <class T>
class ScopeList;

/// A guard of a scope in the list kScopes() of the thread that made it; of several the newest that lives
/// counts. Guards may end in any order, on another thread and after the thread that made them. When another
/// thread ends one, the thread that made it notices when it next asks; the thread that ends it does not
/// change.
template <class T, auto kScopes>
class ScopeGuard : NoCopy {
 public:
  explicit ScopeGuard(const T& value);
  ~ScopeGuard();

 protected:
  /// The value of the next older scope that is open; `base`: there is none. On the thread that made the
  /// guard.
  [[nodiscard]] T outer_or(T base) const noexcept;

  OpenScope<T>* scope_;
};

/// ScopeGuard for local variables of the library, which end in order: costs a few stores.
template <class T, auto kScopes>
class LocalScope : NoCopy {
 public:
  explicit LocalScope(const T& value) noexcept;
  ~LocalScope();

 private:
  Scope<T> scope_;
};

}  // namespace mezzo::detail
