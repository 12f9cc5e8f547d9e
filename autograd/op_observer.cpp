// The scopes of the observers of ops, and their guards.
#include "mezzo/autograd/op_observer.h"

#include "mezzo/core/memory/scope_list.h"

namespace mezzo {

namespace {
constinit thread_local detail::ScopeList<OpObserver*> op_observers;
}

OpObserver* op_observer() noexcept { return op_observers.value_or(nullptr); }

OpObserverGuard::OpObserverGuard(OpObserver* observer) : scope_(op_observers.begin(observer)) {}
OpObserverGuard::~OpObserverGuard() { op_observers.end(scope_); }
OpObserver* OpObserverGuard::outer() const noexcept {
  static_cast<void>(op_observers.newest());  // those that ended on other threads leave the list
  return scope_->older != nullptr ? scope_->older->value : nullptr;
}

namespace detail {
OpObserverFrame::OpObserverFrame(OpObserver* observer) noexcept : scope_{.own = observer} {
  op_observers.push(scope_);
}
OpObserverFrame::~OpObserverFrame() { op_observers.pop(scope_); }
}  // namespace detail

}  // namespace mezzo
