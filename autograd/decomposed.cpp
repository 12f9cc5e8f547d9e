// Runs the composition again on the saved inputs with recording on, and calls grad on the result. Each
// input becomes a tensor of its own, so a tensor that is used twice gets one gradient per use. Where the
// gradient is wanted in a wider dtype, the tensor has that dtype and the composition reads a cast of it: then
// the gradient is not rounded to the input's dtype, in which a sum over many elements may overflow.
#include "mezzo/autograd/decomposed.h"

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/ops.h"

namespace mezzo::detail {

Gradients differentiate(const VjpContext& context, const std::function<Outputs(Inputs)>& compose) {
  const bool create = grad_enabled();
  Tensors inputs, wanted;
  SmallVector<TensorRef, 8> refs;
  Outputs outputs;
  {
    const EnableGrad recording;
    for (std::size_t i = 0; i < context.num_inputs(); ++i) {
      Tensor input = context.saves(i) ? context.in(i) : Tensor();
      // Each input gets an identity of its own, so that a tensor used twice has one gradient per use.
      if (input.defined() && context.needs(i)) {
        const DType dtype = input.dtype();
        const Tensor wide = to(input, promote(dtype, context.wanted(i)));
        wanted.push_back(create ? identity(wide) : wide.detach().requires_grad_());
        input = to(wanted.back(), dtype);
      }
      inputs.push_back(std::move(input));
    }
    for (const Tensor& input : inputs) refs.emplace_back(input);
    outputs = compose(Inputs(refs));
  }
  Tensors differentiable, grad_outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!context.has_grad(i) || !outputs[i].requires_grad()) continue;
    differentiable.push_back(outputs[i]);
    grad_outputs.push_back(context.grad(i));
  }
  const Tensors found =
      grad(differentiable, wanted, grad_outputs, {.create_graph = create, .allow_unused = true});
  Gradients gradients;
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    gradients.push_back(inputs[i].defined() && context.needs(i) ? found[next++] : Tensor());
  }
  return gradients;
}

}  // namespace mezzo::detail
