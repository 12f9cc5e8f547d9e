#include "mezzo/autograd/bind.h"

#include <algorithm>

#include "mezzo/core/error.h"

namespace mezzo::detail {

namespace {

/// Only optional inputs are undefined, and all tensors of a call live on one device; a 0-dim CPU tensor may
/// accompany tensors elsewhere (as in PyTorch).
void check_inputs(const OpInfo& info, Inputs inputs) {
  const Tensor* first = nullptr;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorRef& input = inputs[i];
    if (!input->defined()) {
      if (is_in(info.optional_inputs, i)) continue;
      throw ValueError(info.name.value, "a tensor as input " + std::to_string(i), "an undefined one",
                       "only optional inputs can be left out");
    }
    if (input->device().is_cpu() && input->dim() == 0) continue;
    if (first == nullptr) first = &input.get();
    if (input->device() == first->device()) continue;
    throw DeviceError(info.name.value, "all tensors on one device",
                      to_string(first->device()) + " and " + to_string(input->device()),
                      "move them together with to(device)");
  }
}

}  // namespace

BoundCall::BoundCall(const OpInfo& info, Inputs inputs, bool explicit_dtype) : given_(inputs) {
  check_inputs(info, inputs);
  const LayerState state = layer_state();
  if (state.layer == nullptr) return;
  LayerCall call{.info = info, .inputs = inputs, .explicit_dtype = explicit_dtype};
  state.layer(call);
  run_dtype_ = call.run_dtype;
  if (call.rewritten.empty()) return;
  rewritten_ = std::move(call.rewritten);
  for (const Tensor& tensor : rewritten_) refs_.emplace_back(tensor);
}

bool BoundCall::records() const {
  if (!grad_enabled()) return false;
  const Inputs all = inputs();
  return std::any_of(all.begin(), all.end(), [](const TensorRef& input) { return input->requires_grad(); });
}

}  // namespace mezzo::detail
