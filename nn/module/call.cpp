// The scopes of the observers of module calls, and what a watched call tells whom.
#include "mezzo/nn/call.h"

#include <atomic>

#include "mezzo/autograd/progress.h"
#include "mezzo/core/memory/scope_list.h"

namespace mezzo::nn {

namespace {

using CallScope = mezzo::detail::OpenScope<CallObserver*>;

constinit thread_local mezzo::detail::ScopeList<CallObserver*> observers;
constinit std::atomic<std::uint64_t> observers_made{0};

/// All scopes of this kind are guards'.
[[nodiscard]] CallScope* newest() noexcept { return static_cast<CallScope*>(observers.newest()); }

}  // namespace

CallObserver* detail::call_observer() noexcept { return observers.value_or(nullptr); }

CallObserverGuard::CallObserverGuard(CallObserver& observer) : scope_(observers.begin(&observer)) {
  scope_->number = ++observers_made;
}
CallObserverGuard::~CallObserverGuard() { observers.end(scope_); }
CallObserver* CallObserverGuard::outer() const noexcept {
  static_cast<void>(newest());  // those that ended on other threads leave the list
  return scope_->older != nullptr ? scope_->older->value : nullptr;
}

namespace detail {

WatchedCall::WatchedCall(const Module& module) : module_(module) {
  const CallScope* const scope = newest();
  if (scope == nullptr) return;
  number_ = scope->number;
  place_ = autograd::progress().place;
  try {
    scope->value->enter(module);
    runs_ = true;
  } catch (...) {
    autograd::progress().place = place_;
    throw;
  }
}

void WatchedCall::leave(const Tensor* output) noexcept {
  // An observer that is no longer on the list has ended. Then the next older one, to which it passed `enter`
  // on, gets `leave`.
  const CallScope* scope = newest();
  while (scope != nullptr && scope->number > number_) scope = static_cast<const CallScope*>(scope->older);
  if (scope != nullptr) scope->value->leave(module_, output);
  autograd::progress().place = place_;
}

}  // namespace detail

}  // namespace mezzo::nn
