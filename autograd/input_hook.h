// The seam for what sits above autograd: a function on this thread that may rewrite an op's inputs before it
// runs and is recorded. Autocast installs itself here, so ops and the engine know nothing of it.
#pragma once

#include <optional>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/op.h"
#include "mezzo/core/scope.h"

namespace mezzo {

struct Float8Request;

/// One call on its way through the hook.
struct HookedCall {
  const OpInfo& info;
  Inputs inputs;
  bool explicit_dtype;                    ///< the caller chose the result dtype
  SmallVector<Tensor, 4> rewritten = {};  ///< empty: inputs stay as they are; else one tensor per input
  std::optional<DType> run_dtype = {};    ///< see ForwardArgs::run_dtype
  /// Not a call but the question whether it runs in float8 (autograd/float8.h).
  Float8Request* float8 = nullptr;
};

using InputHook = void (*)(HookedCall&);

/// The hook of a thread and its state: a small value that a node can keep, so that its backward runs under
/// the same state. `context` belongs to the hook, which must keep it alive as long as the process runs.
struct InputHookState {
  InputHook hook = nullptr;
  std::uint64_t context = 0;
  /// In a context: the hook is to be asked for float8.
  static constexpr std::uint64_t kAsksFloat8 = std::uint64_t{1} << 63;
  [[nodiscard]] bool asks_float8() const noexcept { return hook != nullptr && (context & kAsksFloat8) != 0; }
};

/// The state of the calling thread.
[[nodiscard]] InputHookState input_hook_state() noexcept;

namespace detail {
[[nodiscard]] ScopeList<InputHookState>& input_hooks() noexcept;  // of the calling thread
extern template class LocalScope<InputHookState, input_hooks>;
}  // namespace detail

/// Installs a state on its thread while it lives; of several the newest that lives counts. For local
/// variables: it ends on its own thread. Scopes that begin while it lives may end after it.
using InputHookGuard = detail::LocalScope<InputHookState, detail::input_hooks>;

/// No input hook while it lives: ops run in the dtypes of their inputs, whatever autocast says around it.
struct NoInputHook : InputHookGuard {
  NoInputHook() noexcept : LocalScope(InputHookState{}) {}
};

/// Ops as they stand, while it lives: without history and without an input hook.
struct PlainOps {
  NoGrad no_grad;
  NoInputHook no_autocast;
};

namespace detail {
/// A scope that changes a part of the state, for guards that may end in any order and on any thread. `gone`
/// is called on the thread of the scope when it has ended.
[[nodiscard]] OpenScope<InputHookState>* begin_input_hook(InputHookState own,
                                                          Scope<InputHookState>::Derive derive,
                                                          void (*gone)() noexcept);
void end_input_hook(OpenScope<InputHookState>* scope) noexcept;
/// How many of these are open on this thread.
[[nodiscard]] int derived_input_hooks() noexcept;
}  // namespace detail

}  // namespace mezzo
