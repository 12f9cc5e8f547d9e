// Module::to: moves and converts the tensors of a module behind their handles. Separate because it is the one
// place that changes what a TensorImpl is.
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/half_copy.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/nn/module/cloning.h"
#include "mezzo/ops/cast.h"

namespace mezzo::nn {

namespace {

/// Gives `target` memory, dtype and device of `values`, a new tensor of the same shape that has no other
/// handle. The identity of `target` stays: requires_grad, hooks and all handles.
void take_over(const Tensor& target, const Tensor& values) {
  TensorImpl& impl = target.impl();
  Storage& storage = *values.impl().storage;
  // Graphs tell by the version that a saved tensor has changed, so it must not start anew.
  storage.advance_version(impl.storage->version() + 1);
  if (impl.is_view) {
    impl.storage->count_view(-1);
    impl.is_view = false;
  }
  impl.storage = values.impl().storage;
  impl.offset = values.impl().offset;
  impl.strides = values.impl().strides;
  impl.dtype = values.dtype();
  release_half_copies(target);
}

/// Replaces tensor and gradient by what `converted` makes of them.
template <class F>
void convert(const Tensor& tensor, const F& converted) {
  const NoGrad no_grad;
  const Tensor values = converted(tensor.detach());
  Tensor gradient = tensor.grad();
  if (gradient.defined()) gradient = converted(gradient.detach());
  tensor.set_grad({});
  take_over(tensor, values);
  tensor.set_grad(gradient);
}

/// Converts every parameter and buffer that `selected` picks.
template <class Selected, class F>
void convert_all(const Module& module, const Selected& selected, const F& converted) {
  for (const NamedTensors& list : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& [path, tensor] : list) {
      if (selected(tensor)) convert(tensor, converted);
    }
  }
}

}  // namespace

void detail::convert(const Tensor& tensor, Device device, DType dtype) {
  const DType kept = is_floating(tensor.dtype()) ? dtype : tensor.dtype();
  if (tensor.device() == device && tensor.dtype() == kept) return;
  nn::convert(tensor, [&](const Tensor& values) { return mezzo::to(mezzo::to(values, device), kept); });
}

Module& Module::to(Device device) {
  static_cast<void>(backend(device));  // throws when it is not there
  convert_all(
      *this, [&](const Tensor& tensor) { return tensor.device() != device; },
      [&](const Tensor& tensor) { return mezzo::to(tensor, device); });
  return *this;
}

Module& Module::to(DType dtype) {
  if (!is_floating(dtype)) {
    throw DTypeError("Module::to", "a floating dtype", to_string(dtype),
                     "convert buffers of integers one by one");
  }
  convert_all(
      *this, [&](const Tensor& tensor) { return is_floating(tensor.dtype()) && tensor.dtype() != dtype; },
      [&](const Tensor& tensor) { return mezzo::to(tensor, dtype); });
  return *this;
}

}  // namespace mezzo::nn
