// The scopes of the observers of ops.
#include "mezzo/autograd/op_observer.h"

#include "mezzo/core/memory/scope_list.h"

namespace mezzo {

namespace detail {
namespace {
constinit thread_local ScopeList<OpObserver*> observers;
}
ScopeList<OpObserver*>& op_observers() noexcept { return observers; }
template class ScopeGuard<OpObserver*, op_observers>;
template class LocalScope<OpObserver*, op_observers>;
}  // namespace detail

OpObserver* op_observer() noexcept { return detail::op_observers().value_or(nullptr); }

}  // namespace mezzo
