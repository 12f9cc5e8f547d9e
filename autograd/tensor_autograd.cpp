// The members of Tensor that deal with gradients and history.
#include <algorithm>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/node.h"
#include "mezzo/core/error.h"

namespace mezzo {

using autograd::AutogradMeta;
using autograd::GradHooks;
using autograd::NodeHooks;

const Tensor& Tensor::requires_grad_(bool value) const {
  if (value && !is_floating(dtype())) {
    throw DTypeError("requires_grad_", "a floating dtype", to_string(dtype()),
                     "convert with to(DType::f32) first");
  }
  if (!is_leaf()) {
    throw AutogradError("requires_grad_", "a leaf", "a result of recorded ops",
                        value ? "it requires grad already" : "use detach() for a tensor without history");
  }
  impl_->requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const {
  const AutogradMeta* const meta = autograd::meta_of(*this);
  return meta != nullptr ? meta->grad : Tensor();
}

void Tensor::set_grad(const Tensor& gradient) const {
  if (!gradient.defined()) {
    if (AutogradMeta* const meta = autograd::meta_of(*this)) meta->grad = Tensor();
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
  autograd::ensure_meta(*this).grad = gradient;
}

void Tensor::backward() const { mezzo::backward({this, 1}); }
void Tensor::backward(const BackwardOptions& options) const { mezzo::backward({this, 1}, {}, options); }
void Tensor::backward(const Tensor& gradient, const BackwardOptions& options) const {
  mezzo::backward({this, 1}, {&gradient, 1}, options);
}

std::size_t Tensor::register_hook(GradHook hook) const {
  if (!requires_grad()) {
    throw AutogradError("register_hook", "a tensor that requires grad", "one that does not",
                        "call requires_grad_() first");
  }
  AutogradMeta& meta = autograd::ensure_meta(*this);
  if (!meta.hooks) {
    meta.hooks = make_ref<GradHooks>();
    if (impl_->grad_fn) {
      auto& node = static_cast<autograd::Node&>(*impl_->grad_fn);
      if (!node.hooks) node.hooks = make_ref<NodeHooks>();
      static_cast<NodeHooks&>(*node.hooks).list.emplace_back(impl_->output_index, meta.hooks);
    }
  }
  meta.hooks->list.emplace_back(meta.hooks->next_id, std::move(hook));
  return meta.hooks->next_id++;
}

void Tensor::remove_hook(std::size_t id) const {
  const AutogradMeta* const meta = autograd::meta_of(*this);
  if (meta == nullptr || !meta->hooks) return;
  auto& list = meta->hooks->list;
  list.erase(std::remove_if(list.begin(), list.end(), [id](const auto& entry) { return entry.first == id; }),
             list.end());
}

}  // namespace mezzo
