// Whether ops are recorded on this thread, and the scope guards that change it.
#pragma once

#include "mezzo/core/inference_mode.h"
#include "mezzo/core/scope.h"

namespace mezzo {

/// True when ops on this thread are recorded for backward (the default).
[[nodiscard]] bool grad_enabled() noexcept;

namespace detail {
[[nodiscard]] ScopeList<bool>& grad_modes() noexcept;  // of the calling thread
extern template class ScopeGuard<bool, grad_modes>;
extern template class LocalScope<bool, grad_modes>;
using GradModeGuard = ScopeGuard<bool, grad_modes>;
using GradModeFrame = LocalScope<bool, grad_modes>;
}  // namespace detail

// --- recording
//
// Both act on the thread that made them; of several guards the newest that lives decides. They may end in any
// order, on another thread and after the thread that made them. When another thread ends one, the thread that
// made it notices at its next op; the thread that ends it does not change.

/// No recording while it lives (torch.no_grad). Per thread, nestable.
struct NoGrad : detail::GradModeGuard {
  NoGrad() : ScopeGuard(false) {}
};
/// Recording while it lives, inside a NoGrad too (torch.enable_grad).
struct EnableGrad : detail::GradModeGuard {
  EnableGrad() : ScopeGuard(true) {}
};

}  // namespace mezzo
