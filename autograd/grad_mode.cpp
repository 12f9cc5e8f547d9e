// The thread-local flag behind grad_enabled() and its guards. It starts as true in every thread.
#include "mezzo/autograd/grad_mode.h"

namespace mezzo {

namespace {
thread_local bool recording = true;
}

bool grad_enabled() noexcept { return recording; }

namespace detail {
GradModeGuard::GradModeGuard(bool enabled) noexcept : previous_(recording) { recording = enabled; }
GradModeGuard::~GradModeGuard() { recording = previous_; }
}  // namespace detail

}  // namespace mezzo
