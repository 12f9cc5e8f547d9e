// The members of Tensor that deal with gradients and history.
#include <algorithm>
#include <mutex>
#include <utility>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/node.h"
#include "mezzo/autograd/recorded/gradients.h"
#include "mezzo/core/error.h"
#include "mezzo/core/inference_mode.h"

namespace mezzo {

using autograd::AutogradMeta;
using autograd::GradHooks;
using autograd::NodeHooks;

namespace {

/// The former gradient is freed after the lock is released, as it may hold a whole graph.
void exchange_grad(AutogradMeta& meta, Tensor gradient, Device device) {
  const std::scoped_lock lock(meta.lock);
  autograd::RecordedGradients::replaced(meta, device);
  std::swap(meta.grad, gradient);
}

/// The hooks of a tensor, made at first need and attached to the node that made the tensor.
GradHooks& ensure_hooks(TensorImpl& impl) {
  AutogradMeta& meta = autograd::ensure_meta(impl);
  if (GradHooks* const hooks = meta.hooks.get()) return *hooks;
  const std::scoped_lock lock(meta.lock);
  if (GradHooks* const hooks = meta.hooks.get()) return *hooks;  // another thread was faster
  const auto made = make_ref<GradHooks>();
  if (impl.grad_fn) {
    OnceRef<RefCounted>& of_node = static_cast<autograd::Node&>(*impl.grad_fn).hooks;
    if (of_node.get() == nullptr) of_node.set(make_ref<NodeHooks>());
    auto& node_hooks = static_cast<NodeHooks&>(*of_node.get());
    const std::scoped_lock node_lock(node_hooks.mutex);
    node_hooks.list.emplace_back(impl.output_index, made);
  }
  return meta.hooks.set(made);
}

}  // namespace

const Tensor& Tensor::requires_grad_(bool value) const {
  if (value && !is_floating(required("requires_grad_").dtype)) {
    throw DTypeError("requires_grad_", "a floating dtype", to_string(dtype()),
                     "convert with to(DType::f32) first");
  }
  if (required("requires_grad_").grad_fn) {
    throw AutogradError("requires_grad_", "a leaf", "a result of recorded ops",
                        value ? "it requires grad already" : "use detach() for a tensor without history");
  }
  if (value && is_inference() && !inference_mode_enabled()) {
    throw AutogradError("requires_grad_", "a normal tensor", "an inference tensor",
                        "make it outside of InferenceMode, or clone() it there");
  }
  impl_->requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const {
  AutogradMeta* const meta = autograd::meta_of(required("grad"));
  if (meta == nullptr) return {};
  const std::scoped_lock lock(meta->lock);
  return meta->grad;
}

void Tensor::set_grad(const Tensor& gradient) const {
  static_cast<void>(required("set_grad"));
  if (!gradient.defined()) {
    const bool none = autograd::meta_of(*this) == nullptr && detail::Recording::of(device()) == nullptr;
    if (!none) exchange_grad(autograd::ensure_meta(*this), {}, device());
    return;
  }
  if (gradient.shape() != shape()) {
    throw ShapeError("set_grad", to_string(shape()), to_string(gradient.shape()),
                     "give it the tensor's shape");
  }
  if (gradient.dtype() != dtype() && !(is_16bit(dtype()) && gradient.dtype() == DType::f32)) {
    throw DTypeError("set_grad", to_string(dtype()) + (is_16bit(dtype()) ? " or f32" : ""),
                     to_string(gradient.dtype()), "convert it with to(dtype)");
  }
  if (!(gradient.device() == device())) {
    throw DeviceError("set_grad", to_string(device()), to_string(gradient.device()),
                      "move it with to(device)");
  }
  exchange_grad(autograd::ensure_meta(*this), gradient, device());
}

void Tensor::backward() const { backward(BackwardOptions{}); }
void Tensor::backward(const BackwardOptions& options) const {
  static_cast<void>(required("backward"));
  mezzo::backward({this, 1}, {}, options);
}
void Tensor::backward(const Tensor& gradient) const { backward(gradient, BackwardOptions{}); }
void Tensor::backward(const Tensor& gradient, const BackwardOptions& options) const {
  static_cast<void>(required("backward"));
  mezzo::backward({this, 1}, {&gradient, 1}, options);
}

std::size_t Tensor::register_hook(GradHook hook) const {
  static_cast<void>(required("register_hook"));
  if (!requires_grad()) {
    throw AutogradError("register_hook", "a leaf that requires grad, or a result computed from one",
                        is_floating(dtype()) ? "a leaf that does not require grad"
                                             : "a tensor of " + std::string(to_string(dtype())),
                        "call requires_grad_() on the leaf, and compute outside of NoGrad");
  }
  GradHooks& hooks = ensure_hooks(*impl_);
  const std::scoped_lock lock(hooks.mutex);
  hooks.list.emplace_back(hooks.next_id, std::move(hook));
  return hooks.next_id++;
}

void Tensor::remove_hook(std::size_t id) const {
  const AutogradMeta* const meta = autograd::meta_of(required("remove_hook"));
  GradHooks* const hooks = meta != nullptr ? meta->hooks.get() : nullptr;
  if (hooks == nullptr) return;
  GradHook removed;  // goes after the lock, as it may own anything
  const std::scoped_lock lock(hooks->mutex);
  const auto found = std::find_if(hooks->list.begin(), hooks->list.end(),
                                  [id](const auto& entry) { return entry.first == id; });
  if (found == hooks->list.end()) return;
  removed = std::move(found->second);
  hooks->list.erase(found);
}

}  // namespace mezzo
