// InferenceMode: a scope of one thread whose results never take part in autograd.
#pragma once

#include "mezzo/core/scope.h"

namespace mezzo {

/// True inside an InferenceMode of this thread (outside by default).
[[nodiscard]] bool inference_mode_enabled() noexcept;

namespace detail {
enum class Inference : bool { off, on };
[[nodiscard]] ScopeList<Inference>& inference_modes() noexcept;  // of the calling thread
extern template class ScopeGuard<Inference, inference_modes>;
extern template class LocalScope<Inference, inference_modes>;
using InferenceFrame = LocalScope<Inference, inference_modes>;
}  // namespace detail

/// No recording while it lives, inside an EnableGrad too, and what is made meanwhile are inference tensors
/// (`Tensor::is_inference`): writes into them are not counted, so no graph may save them. Ops that record
/// refuse such a tensor where they would save it or write into it (AutogradError), and so does
/// `requires_grad_` outside of the mode; a clone() made outside is a normal tensor. Views of normal tensors
/// are normal. Per thread, nestable; `InferenceMode(false)` ends the mode inside. A backward runs outside of
/// it. Guards may end in any order, on another thread and after the thread that made them. Source:
/// torch.inference_mode.
class InferenceMode : detail::ScopeGuard<detail::Inference, detail::inference_modes> {
 public:
  explicit InferenceMode(bool mode = true)
      : ScopeGuard(mode ? detail::Inference::on : detail::Inference::off) {}
};

}  // namespace mezzo
