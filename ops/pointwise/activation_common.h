// Activations whose gradient is one pass of its own: what makes the two descriptors out of the formulas.
#pragma once

#include "mezzo/autograd/decomposed.h"
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
                                                    typename Op<A>::Forward reference,
                                                    std::type_identity_t<Vjp<A>> vjp = kDecomposed) {
  Op<A> op = elementwise_op<A>(name, Category::passthrough, samples, forward, vjp, save_inputs(0, 1));
  op.reference = reference;
  return op;
}

/// The descriptor of A's gradient, for ops to refer to before it is defined.
template <class A>
[[nodiscard]] const Op<typename A::Attrs>& backward_descriptor();

/// An activation A is a struct of: Attrs, name, backward_name, category; samples(); function(attrs) and
/// backward(attrs), its functors of x and of (grad, x), made after checking attrs; gradient(grad, x, attrs),
/// which is backward in public ops; is_piecewise_linear, whether its second derivative is 0.
template <class A>
Outputs activation_forward(const ForwardArgs<typename A::Attrs>& args) {
  const Tensor& x = args.in(0);
  require_floating(A::name, x);
  return map_one_real(A::function(args.attrs), x, args.run_dtype.value_or(x.dtype()));
}
template <class A>
Gradients activation_vjp(const VjpArgs<typename A::Attrs>& args) {
  return {bind(backward_descriptor<A>(), {args.grad(), args.stored_in(0)}, args.attrs)};
}

template <class A>
Outputs activation_backward_forward(const ForwardArgs<typename A::Attrs>& args) {
  return map_backward(A::backward_name, A::backward(args.attrs), args.in(0), args.in(1));
}
template <class A>
Outputs activation_backward_reference(const ForwardArgs<typename A::Attrs>& args) {
  const Tensor &grad = args.in(0), &x = args.in(1);
  return to(A::gradient(widened(grad), widened(x), args.attrs), grad.dtype());
}
template <class A>
Gradients activation_backward_vjp(const VjpArgs<typename A::Attrs>& args) {
  if constexpr (A::is_piecewise_linear) {
    const Tensor of_grad = args.needs(0)
                               ? Tensor(bind(backward_descriptor<A>(), {args.grad(), args.in(1)}, args.attrs))
                               : Tensor();
    return {of_grad, zeros_for(args, 1)};
  } else {
    return decomposed(args);
  }
}
template <class A>
std::vector<Sample<typename A::Attrs>> activation_backward_samples() {
  std::vector<Sample<typename A::Attrs>> list = A::samples();
  for (auto& sample : list)
    sample.inputs.insert(sample.inputs.begin(), op_samples::real(sample.inputs[0].shape));
  return list;
}

template <class A>
constexpr Op<typename A::Attrs> kActivationOp = elementwise_op<typename A::Attrs>(
    A::name, A::category, A::samples, activation_forward<A>, activation_vjp<A>, save_inputs(0));
template <class A>
constexpr Op<typename A::Attrs> kActivationBackwardOp = pointwise_gradient_op<typename A::Attrs>(
    A::backward_name, activation_backward_samples<A>, activation_backward_forward<A>,
    activation_backward_reference<A>, activation_backward_vjp<A>);
template <class A>
const Op<typename A::Attrs>& backward_descriptor() {
  return kActivationBackwardOp<A>;
}

/// What activations of straight pieces, and smooth ones, have in common.
struct PiecewiseLinear {
  static constexpr Category category = Category::passthrough;
  static constexpr bool is_piecewise_linear = true;
};
struct Curved {
  static constexpr Category category = Category::passthrough;
  static constexpr bool is_piecewise_linear = false;
};
/// An activation of either kind without options, of functors F of x and B of (grad, x).
template <class Kind, class F, class B>
struct PlainActivation : Kind {
  using Attrs = NoAttrs;
  static F function(const NoAttrs& /*attrs*/) { return {}; }
  static B backward(const NoAttrs& /*attrs*/) { return {}; }
};

/// Both descriptors of A in the registry.
template <class A>
struct RegisteredActivation {
  Registered forward{kActivationOp<A>}, backward{kActivationBackwardOp<A>};
};

}  // namespace mezzo::ops
