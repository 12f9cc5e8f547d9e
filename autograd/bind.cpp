// The steps before an op's forward: inputs are checked to be on one device, 0-dim CPU tensors are moved
// there, then the thread's input hook (autocast) may replace inputs.
#include "mezzo/autograd/bind.h"

#include <algorithm>

#include "mezzo/autograd/region.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"

namespace mezzo {

std::string why_not_float8(std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kMultiple = 16;  // of both, by the matrix units' float8 instructions
  const auto text = [](const char* name, std::int64_t size) {
    return std::string(name) + " = " + std::to_string(size) + " is no multiple of 16";
  };
  return k % kMultiple != 0 ? text("K", k) : n % kMultiple != 0 ? text("N", n) : "";
}

}  // namespace mezzo

namespace mezzo::detail {

namespace {

/// Only optional inputs are undefined, and all tensors of a call live on one device, which is returned; a
/// 0-dim CPU tensor may accompany tensors elsewhere (as in PyTorch).
Device check_inputs(const OpInfo& info, Inputs inputs) {
  const Tensor* first = nullptr;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorRef& input = inputs[i];
    if (!input->defined()) {
      if (is_in(info.optional_inputs, i)) continue;
      throw ValueError(info.name.value, "a tensor as input " + std::to_string(i), "an undefined one",
                       "only optional inputs can be left out");
    }
    if (!info.takes_float8) require_compute_dtype(info.name.value, input->dtype());
    if (input->device().is_cpu() && input->dim() == 0) continue;
    if (first == nullptr) first = &input.get();
    if (input->device() == first->device()) continue;
    throw DeviceError(info.name.value, "all tensors on one device",
                      to_string(first->device()) + " and " + to_string(input->device()),
                      "move them together with to(device)");
  }
  return first == nullptr ? Device::cpu() : first->device();
}

/// The inputs with those that are numbers on the CPU brought to the device: kernels read device memory only.
SmallVector<Tensor, 4> on_device(Inputs inputs, Device device) {
  SmallVector<Tensor, 4> all;
  for (const TensorRef& input : inputs) {
    all.push_back(input->defined() && input->device().is_cpu() ? to(input, device) : input.get());
  }
  return all;
}

}  // namespace

bool ask_for_float8(const OpInfo& info, Float8Request& request) {
  const Float8Product& product = request.product;
  if (!product.x.defined() || product.x.numel() == 0 || !(product.x.device() == product.weight.device()) ||
      (product.bias.defined() && !(product.bias.device() == product.x.device())) ||
      !why_not_float8(product.n(), product.k()).empty())
    return false;
  const TensorRef operands[]{product.x, product.weight};
  HookedCall call{.info = info, .inputs = Inputs(operands), .explicit_dtype = false, .float8 = &request};
  input_hook_state().hook(call);
  return request.granted;
}

BoundCall::BoundCall(const OpInfo& info, Inputs inputs, std::optional<DType> explicit_dtype)
    : given_(inputs) {
  const auto take = [this](SmallVector<Tensor, 4> tensors) {
    rewritten_ = std::move(tensors);
    refs_.clear();
    for (const Tensor& tensor : rewritten_) refs_.emplace_back(tensor);
  };
  const Device device = check_inputs(info, inputs);
  if (explicit_dtype && !info.takes_float8) require_compute_dtype(info.name.value, *explicit_dtype);
  const auto elsewhere = [&](const TensorRef& input) {
    return input->defined() && !(input->device() == device);
  };
  if (!device.is_cpu() && std::any_of(inputs.begin(), inputs.end(), elsewhere))
    take(on_device(inputs, device));
  if (const InputHookState state = input_hook_state(); state.hook != nullptr) {
    HookedCall call{.info = info, .inputs = this->inputs(), .explicit_dtype = explicit_dtype.has_value()};
    state.hook(call);
    run_dtype_ = call.run_dtype;
    if (!call.rewritten.empty()) take(std::move(call.rewritten));
  }
  const autograd::RegionScope* const scope = autograd::current_region();
  if (scope != nullptr && scope->recomputes) [[unlikely]]
    scope->region.deliver_inputs(info, this->inputs());
}

bool BoundCall::records() const {
  if (!grad_enabled()) return false;
  const Inputs all = inputs();
  return std::any_of(all.begin(), all.end(), [](const TensorRef& input) { return input->requires_grad(); });
}

}  // namespace mezzo::detail
