// The thread-local pointer to the observer of module calls, and the guard that exchanges it.
#include "mezzo/nn/call.h"

namespace mezzo::nn {

namespace {
thread_local CallObserver* current = nullptr;
}

CallObserver* detail::call_observer() noexcept { return current; }

CallObserverGuard::CallObserverGuard(CallObserver& observer) noexcept
    : previous_(std::exchange(current, &observer)) {}
CallObserverGuard::~CallObserverGuard() { current = previous_; }

}  // namespace mezzo::nn
