// Whether ops are recorded on this thread, and the scope guards that change it.
#pragma once

#include "mezzo/core/inference_mode.h"
#include "mezzo/core/scope.h"

namespace mezzo {

/// True when ops on this thread are recorded for backward (the default).
[[nodiscard]] bool grad_enabled() noexcept;

namespace detail {
/// Sets recording on its thread while it lives.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled);
  ~GradModeGuard();
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  OpenScope<bool>* scope_;
};

/// GradModeGuard for local variables of the library, which cost a few stores.
class GradModeFrame {
 public:
  explicit GradModeFrame(bool enabled) noexcept;
  ~GradModeFrame();
  GradModeFrame(const GradModeFrame&) = delete;
  GradModeFrame& operator=(const GradModeFrame&) = delete;

 private:
  Scope<bool> scope_;
};
}  // namespace detail

// --- recording
//
// Both act on the thread that made them; of several guards the newest that lives decides. They may end in any
// order, on another thread and after the thread that made them. When another thread ends one, the thread that
// made it notices at its next op; the thread that ends it does not change.

/// No recording while it lives (torch.no_grad). Per thread, nestable.
struct NoGrad : detail::GradModeGuard {
  NoGrad() : GradModeGuard(false) {}
};
/// Recording while it lives, inside a NoGrad too (torch.enable_grad).
struct EnableGrad : detail::GradModeGuard {
  EnableGrad() : GradModeGuard(true) {}
};

}  // namespace mezzo
