// The scopes behind grad_enabled() and its guards. Without one, every thread records.
#include "mezzo/autograd/grad_mode.h"

#include "mezzo/core/memory/scope_list.h"

namespace mezzo {

namespace detail {
namespace {
constinit thread_local ScopeList<bool> modes;
}
ScopeList<bool>& grad_modes() noexcept { return modes; }
template class ScopeGuard<bool, grad_modes>;
template class LocalScope<bool, grad_modes>;
}  // namespace detail

bool grad_enabled() noexcept { return detail::grad_modes().value_or(true) && !inference_mode_enabled(); }

}  // namespace mezzo
