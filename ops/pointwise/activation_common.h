// What makes the descriptors of activations out of their formulas. A few, those of most nets, have gradients
// of one pass each (activation.cu, relu.cu); those of all others are compositions.
#pragma once

#include "mezzo/autograd/decomposed.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo::ops {

/// f(grad, value) in the wider of both dtypes; the result has grad's.
template <class F>
[[nodiscard]] Tensor map_gradient(std::string_view op, F f, const Tensor& grad, const Tensor& value) {
  require_floating(op, grad);
  return map<2, true>(op, f, {&grad, &value}, compute_dtype(promote(grad.dtype(), value.dtype())),
                      grad.dtype());
}

/// map_gradient for a `value` that must be floating (DTypeError).
template <class F>
[[nodiscard]] Tensor map_backward(std::string_view op, F f, const Tensor& grad, const Tensor& value) {
  require_floating(op, value);
  return map_gradient(op, f, grad, value);
}

/// The descriptor of an elementwise gradient op of (grad, value), and of the public ops that it equals, by
/// which it is differentiated.
template <class A = NoAttrs>
[[nodiscard]] constexpr Op<A> pointwise_gradient_op(std::string_view name, typename Op<A>::SampleList samples,
                                                    typename Op<A>::Forward forward,
                                                    typename Op<A>::Forward reference) {
  Op<A> op = elementwise_op<A>(name, Category::passthrough, samples, forward, kDecomposed, save_inputs(0, 1));
  op.reference = reference;
  return op;
}

/// An activation A is a struct of: Attrs, name, category; samples(); function(attrs), its functor of x, made
/// after checking attrs; gradient(grad, x, attrs), the gradient in public ops, given x and grad in their
/// compute types.
template <class A>
Outputs activation_forward(const ForwardArgs<typename A::Attrs>& args) {
  const Tensor& x = args.in(0);
  require_floating(A::name, x);
  return map_one_real(A::function(args.attrs), x, args.run_dtype.value_or(x.dtype()));
}
template <class A>
Gradients activation_vjp(const VjpArgs<typename A::Attrs>& args) {
  const Tensor grad = args.grad(), x = widened(args.in(0));
  Tensor found = A::gradient(widened(grad), x, args.attrs);
  // A slope of straight pieces is made of no x, and has a second derivative all the same: 0.
  if (grad_enabled() && x.requires_grad() && !found.requires_grad())
    found = add(found, where(full_like(x, false, DType::boolean), x, 0));
  return {to(found, grad.dtype())};
}
template <class A>
constexpr Op<typename A::Attrs> kActivationOp = elementwise_op<typename A::Attrs>(
    A::name, A::category, A::samples, activation_forward<A>, activation_vjp<A>, save_inputs(0));

/// An activation without options, of functor F of x.
template <class F>
struct PlainActivation {
  using Attrs = NoAttrs;
  static constexpr Category category = Category::passthrough;
  static F function(const NoAttrs& /*attrs*/) { return {}; }
};

}  // namespace mezzo::ops
