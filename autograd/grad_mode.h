// Whether ops are recorded on this thread, and the scope guards that change it.
#pragma once

namespace mezzo {

/// True when ops on this thread are recorded for backward (the default).
[[nodiscard]] bool grad_enabled() noexcept;

namespace detail {
/// Sets recording for a scope and restores what was before.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled) noexcept;
  ~GradModeGuard();
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool previous_;
};
}  // namespace detail

/// No recording while it lives (torch.no_grad). Per thread, nestable.
struct NoGrad : detail::GradModeGuard {
  NoGrad() noexcept : GradModeGuard(false) {}
};
/// Recording while it lives, inside a NoGrad too (torch.enable_grad).
struct EnableGrad : detail::GradModeGuard {
  EnableGrad() noexcept : GradModeGuard(true) {}
};

}  // namespace mezzo
