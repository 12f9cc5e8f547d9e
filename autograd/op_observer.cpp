// The thread-local pointer to the observer of ops, and the guard that exchanges it.
#include "mezzo/autograd/op_observer.h"

#include <utility>

namespace mezzo {

namespace {
thread_local OpObserver* current = nullptr;
}

OpObserver* op_observer() noexcept { return current; }

OpObserverGuard::OpObserverGuard(OpObserver* observer) noexcept
    : previous_(std::exchange(current, observer)) {}
OpObserverGuard::~OpObserverGuard() { current = previous_; }

}  // namespace mezzo
