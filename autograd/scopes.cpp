// The open scopes of a thread: whether ops are recorded, who observes them, and the input hook. Without one,
// every thread records, and has neither observer nor hook.
#include <atomic>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/core/memory/scope_list.h"

namespace mezzo {

namespace {
constinit thread_local detail::ScopeList<bool> open_grad_modes;
constinit thread_local detail::ScopeList<OpObserver*> open_observers;
constinit thread_local detail::ScopeList<InputHookState> open_input_hooks;
constinit std::atomic<OpObserver*> process_observer{nullptr};
}  // namespace

bool grad_enabled() noexcept { return open_grad_modes.value_or(true) && !inference_mode_enabled(); }
OpObserver* op_observer() noexcept { return open_observers.value_or(process_op_observer()); }
OpObserver* process_op_observer() noexcept { return process_observer.load(std::memory_order_acquire); }
void set_process_op_observer(OpObserver* observer) noexcept {
  process_observer.store(observer, std::memory_order_release);
}
InputHookState input_hook_state() noexcept { return open_input_hooks.value_or({}); }

namespace detail {

ScopeList<bool>& grad_modes() noexcept { return open_grad_modes; }
ScopeList<OpObserver*>& op_observers() noexcept { return open_observers; }
ScopeList<InputHookState>& input_hooks() noexcept { return open_input_hooks; }
template class ScopeGuard<bool, grad_modes>;
template class LocalScope<bool, grad_modes>;
template class ScopeGuard<OpObserver*, op_observers>;
template class LocalScope<OpObserver*, op_observers>;
template class LocalScope<InputHookState, input_hooks>;

OpenScope<InputHookState>* begin_input_hook(InputHookState own, Scope<InputHookState>::Derive derive,
                                            void (*gone)() noexcept) {
  OpenScope<InputHookState>* const scope = open_input_hooks.begin(own, derive);
  scope->gone = gone;
  return scope;
}

void end_input_hook(OpenScope<InputHookState>* scope) noexcept { open_input_hooks.end(scope); }

int derived_input_hooks() noexcept {
  int count = 0;
  for (const Scope<InputHookState>* scope = open_input_hooks.newest(); scope != nullptr; scope = scope->older)
    count += scope->derive != nullptr ? 1 : 0;
  return count;
}

}  // namespace detail

}  // namespace mezzo
