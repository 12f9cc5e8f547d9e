// The scopes behind inference_mode_enabled() and its guard.
#include "mezzo/core/inference_mode.h"

#include "mezzo/core/memory/scope_list.h"

namespace mezzo {

namespace detail {
namespace {
constinit thread_local ScopeList<Inference> modes;
}
ScopeList<Inference>& inference_modes() noexcept { return modes; }
template class ScopeGuard<Inference, inference_modes>;
template class LocalScope<Inference, inference_modes>;
}  // namespace detail

bool inference_mode_enabled() noexcept {
  return detail::inference_modes().value_or(detail::Inference::off) == detail::Inference::on;
}

}  // namespace mezzo
