// relu, and its gradient as an op of one pass.
#include "mezzo/ops/pointwise.h"

#include "mezzo/autograd/input_hook.h"
#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/pointwise/activation_common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

Outputs relu_forward(const ForwardArgs<NoAttrs>& args) {
  refuse_bool("relu", args.in(0), "convert it with to(DType::f32)");
  return unary<ReluFn>(args);
}
Gradients relu_vjp(const VjpArgs<NoAttrs>& args) { return {relu_backward(args.grad(), args.out())}; }
constexpr Op<NoAttrs> relu_op =
    elementwise_op("relu", Category::passthrough, kink_samples, relu_forward, relu_vjp, save_outputs(0));

/// Whether relu's gradient passes there; a NaN result lets it.
MEZZO_FUNCTOR(ReluPassesFn, bool, (T out), !(out <= T(0)));
Outputs masked_relu_forward(const ForwardArgs<NoAttrs>& args) {
  Tensor out = relu_forward(args);
  Tensor passes = map_one(ReluPassesFn{}, out, compute_dtype(out.dtype()), DType::boolean);
  return Tensors{std::move(out), std::move(passes)};
}
Gradients masked_relu_vjp(const VjpArgs<NoAttrs>& args) { return {relu_backward(args.grad(), args.out(1))}; }
/// relu that keeps a mask for its gradient, a byte per element. Under autocast nobody else may hold an f32
/// result: the next product keeps a 16-bit copy of it. It is no op of its own, so it is not in the registry.
constexpr Op<NoAttrs> masked_relu_op = elementwise_op("relu", Category::passthrough, kink_samples,
                                                      masked_relu_forward, masked_relu_vjp, save_outputs(1));

/// Whether a mask takes less memory than the result that relu would keep.
bool mask_pays(const Tensor& x) {
  return input_hook_state().hook != nullptr && x.dtype() == DType::f32 && x.requires_grad() && grad_enabled();
}

Outputs relu_backward_forward(const ForwardArgs<NoAttrs>& args) {
  // Of a mask, too, which is 1 where a gradient passes.
  const bool is_mask = args.in(1).dtype() == DType::boolean;
  if (!is_mask) require_floating("relu_backward", args.in(1));
  return map_gradient("relu_backward", ReluBackwardFn{}, args.in(0), args.in(1));
}
Gradients relu_backward_vjp(const VjpArgs<NoAttrs>& args) {
  return {args.needs(0) ? relu_backward(args.grad(), args.in(1)) : Tensor(), zeros_for(args, 1)};
}
std::vector<Sample<NoAttrs>> relu_backward_samples() {
  return {{{op_samples::real({3, 5}), op_samples::smooth({3, 5})}}};
}
constexpr Op<NoAttrs> relu_backward_op =
    elementwise_op("relu_backward", Category::passthrough, relu_backward_samples, relu_backward_forward,
                   relu_backward_vjp, save_inputs(1));

const Registered relu_registered{relu_op, relu_backward_op};

}  // namespace

Tensor relu(const Tensor& x) {
  if (x.defined() && mask_pays(x)) return bind(masked_relu_op, {x})[0];
  return bind(relu_op, {x});
}
Tensor relu_backward(const Tensor& grad, const Tensor& out) { return bind(relu_backward_op, {grad, out}); }

}  // namespace mezzo
