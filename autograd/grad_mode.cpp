// The scopes behind grad_enabled() and its guards. Without one, every thread records.
#include "mezzo/autograd/grad_mode.h"

#include "mezzo/core/memory/scope_list.h"

namespace mezzo {

namespace {
constinit thread_local detail::ScopeList<bool> modes;
}

bool grad_enabled() noexcept { return modes.value_or(true) && !inference_mode_enabled(); }

namespace detail {
GradModeGuard::GradModeGuard(bool enabled) : scope_(modes.begin(enabled)) {}
GradModeGuard::~GradModeGuard() { modes.end(scope_); }
GradModeFrame::GradModeFrame(bool enabled) noexcept : scope_{.own = enabled} { modes.push(scope_); }
GradModeFrame::~GradModeFrame() { modes.pop(scope_); }
}  // namespace detail

}  // namespace mezzo
