// Runs the composition again on the saved inputs with recording on, and calls grad on the result. Each
// input becomes a tensor of its own, so a tensor that is used twice gets one gradient per use. Where the
// gradient is wanted in a wider dtype, the tensor has that dtype and the composition reads a cast of it: then
// the gradient is not rounded to the input's dtype, in which a sum over many elements may overflow.
#include "mezzo/autograd/decomposed.h"

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

Tensors composed_gradients(const Tensors& inputs, std::span<const bool> asked, const Tensors& grads,
                           const std::function<Outputs(const Tensors&)>& compose) {
  const bool create = grad_enabled();
  Tensors all = inputs, wanted;
  Outputs outputs;
  {
    const EnableGrad recording;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!asked[i]) continue;
      // Each input gets an identity of its own, so that a tensor used twice has one gradient per use.
      all[i] = create && all[i].requires_grad() ? identity(all[i]) : all[i].detach().requires_grad_();
      wanted.push_back(all[i]);
    }
    outputs = compose(all);
  }
  Tensors differentiable, grad_outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!grads[i].defined() || !outputs[i].requires_grad()) continue;
    differentiable.push_back(outputs[i]);
    grad_outputs.push_back(grads[i]);
  }
  return grad(differentiable, wanted, grad_outputs, {.create_graph = create, .allow_unused = true});
}

Gradients detail::differentiate(const VjpContext& context, const std::function<Outputs(Inputs)>& compose) {
  Tensors inputs, grads;
  SmallVector<bool, 8> asked;
  SmallVector<DType, 8> dtypes;
  for (std::size_t i = 0; i < context.num_inputs(); ++i) {
    Tensor input = context.saves(i) ? context.in(i) : Tensor();
    asked.push_back(input.defined() && context.needs(i));
    dtypes.push_back(input.defined() ? input.dtype() : DType::f32);
    inputs.push_back(asked[i] ? to(input, promote(dtypes[i], context.wanted(i))) : std::move(input));
  }
  for (std::size_t i = 0; i < context.num_outputs(); ++i)
    grads.push_back(context.has_grad(i) ? context.grad(i) : Tensor());
  const Tensors found = composed_gradients(inputs, asked, grads, [&](Tensors own) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (asked[i]) own[i] = to(own[i], dtypes[i]);
    }
    const SmallVector<TensorRef, 8> refs(own.begin(), own.end());
    return compose(Inputs(refs));
  });
  Gradients gradients(inputs.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (asked[i]) gradients[i] = found[next++];
  }
  return gradients;
}

}  // namespace mezzo
