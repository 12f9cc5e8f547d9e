// The open scopes of a thread (recording, autocast, observers, ...), one list per kind. A guard holds a node
// of its list; headers of guards need only this file, the lists are in core/memory/scope_list.h.
#pragma once

#include "mezzo/core/host_device.h"

namespace mezzo::detail {

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

}  // namespace mezzo::detail
