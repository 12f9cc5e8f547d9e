// What a guard leaves on its thread: a node in the list of the open scopes of its kind. Headers of guards
// need no more than this; the lists are in core/memory/scope_list.h.
#pragma once

namespace mezzo::detail {

/// One open scope of a kind: recording, autocast, an observer, ... The newest of a thread counts.
template <class T>
struct Scope {
  /// What holds in a scope that changes a part of what held before it, and does not replace it.
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
