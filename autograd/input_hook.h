// The seam for what sits above autograd: a function on this thread that may rewrite an op's inputs before it
// runs and is recorded. Autocast installs itself here, so ops and the engine know nothing of it.
#pragma once

#include <optional>

#include "mezzo/autograd/op.h"

namespace mezzo {

/// One call on its way through the hook.
struct HookedCall {
  const OpInfo& info;
  Inputs inputs;
  bool explicit_dtype;                    ///< the caller chose the result dtype
  SmallVector<Tensor, 4> rewritten = {};  ///< empty: inputs stay as they are; else one tensor per input
  std::optional<DType> run_dtype = {};    ///< see ForwardArgs::run_dtype
};

using InputHook = void (*)(HookedCall&);

/// What the hook of this thread is and what it knows; a small value that a node keeps so that its backward
/// can run under the same state. `context` belongs to the hook, which must keep it alive as long as the
/// process runs.
struct InputHookState {
  InputHook hook = nullptr;
  std::uint64_t context = 0;
};

/// The state of the calling thread.
[[nodiscard]] InputHookState input_hook_state() noexcept;
void set_input_hook_state(InputHookState state) noexcept;

/// Installs a state for a scope.
class InputHookGuard {
 public:
  explicit InputHookGuard(InputHookState state) noexcept : previous_(input_hook_state()) {
    set_input_hook_state(state);
  }
  ~InputHookGuard() { set_input_hook_state(previous_); }
  InputHookGuard(const InputHookGuard&) = delete;
  InputHookGuard& operator=(const InputHookGuard&) = delete;

 private:
  InputHookState previous_;
};

}  // namespace mezzo
