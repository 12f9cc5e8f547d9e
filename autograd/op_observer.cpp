// The scopes of the observers of ops, and their guards.
#include "mezzo/autograd/op_observer.h"

#include "mezzo/core/memory/scope_list.h"

namespace mezzo {

namespace {
constinit thread_local detail::ScopeList<OpObserver*> observers;
}

OpObserver* op_observer() noexcept { return observers.value_or(nullptr); }

OpObserverGuard::OpObserverGuard(OpObserver* observer) : scope_(observers.begin(observer)) {}
OpObserverGuard::~OpObserverGuard() { observers.end(scope_); }
OpObserver* OpObserverGuard::outer() const noexcept {
  static_cast<void>(observers.newest());  // those that ended on other threads leave the list
  return scope_->older != nullptr ? scope_->older->value : nullptr;
}

namespace detail {
OpObserverFrame::OpObserverFrame(OpObserver* observer) noexcept : scope_{.own = observer} {
  observers.push(scope_);
}
OpObserverFrame::~OpObserverFrame() { observers.pop(scope_); }
}  // namespace detail

}  // namespace mezzo
