// The scopes behind inference_mode_enabled() and its guard.
#include "mezzo/core/inference_mode.h"

#include "mezzo/core/memory/scope_list.h"

namespace mezzo {

namespace {
using detail::Inference;
constinit thread_local detail::ScopeList<Inference> inference_modes;
}  // namespace

bool inference_mode_enabled() noexcept { return inference_modes.value_or(Inference::off) == Inference::on; }

namespace detail {
InferenceFrame::InferenceFrame(Inference mode) noexcept : scope_{.own = mode} {
  inference_modes.push(scope_);
}
InferenceFrame::~InferenceFrame() { inference_modes.pop(scope_); }
}  // namespace detail

InferenceMode::InferenceMode(bool mode)
    : scope_(inference_modes.begin(mode ? Inference::on : Inference::off)) {}
InferenceMode::~InferenceMode() { inference_modes.end(scope_); }

}  // namespace mezzo
