// Descriptors of the losses that are a function of one element of x and one of the target: forward in one
// pass and the gradient of x in another, from what a loss says about itself.
//
// A loss is a struct derived from ElementwiseLoss with Attrs (which have a `reduction`), kName,
// kBackwardName, samples(), and three functions: loss(attrs) and slope(attrs), functors of (x, target), and
// losses(attrs, x, target), the loss as a plain composition. The members of ElementwiseLoss may be replaced.
#pragma once

#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/ops/loss/common.h"
#include "mezzo/ops/shape.h"

namespace mezzo::ops {

/// slope(x, target) times the gradient of the loss.
template <class Slope>
struct SlopeGradientFn {
  Slope slope;
  double scale;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, T target) const {
    return slope(x, target) * (T(scale) * grad);
  }
};

struct ElementwiseLoss {
  /// A factor of all slopes.
  static constexpr double kSlopeFactor = 1;
  /// Whether the target's gradient is x's with the two exchanged.
  static constexpr bool kIsSymmetric = false;
  template <class A>
  static void check(const A& /*attrs*/, const Shape& /*x*/) {}
  template <class A>
  static Reduction reduction(const A& attrs) {
    return attrs.reduction;
  }
  /// The factor of the reduced loss.
  template <class A>
  static double factor(const A& /*attrs*/, const Shape& /*x*/) {
    return 1;
  }
};

template <class L>
Outputs elementwise_loss(const ForwardArgs<typename L::Attrs>& args) {
  const Tensor &x = args.in(0), &target = args.in(1);
  const DType result = loss_dtype(L::kName, args);
  L::check(args.attrs, x.shape());
  const Shape shape = layout::broadcast(L::kName, x.shape(), target.shape());
  const Reduction reduction = L::reduction(args.attrs);
  const double factor = L::factor(args.attrs, x.shape());
  const auto loss = L::loss(args.attrs);
  if (factor == 1) return reduced_loss<2>(L::kName, loss, {&x, &target}, shape, reduction, result);
  const Tensor total =
      reduced_loss<2>(L::kName, loss, {&x, &target}, shape, reduction, compute_dtype(result));
  return to(total * factor, result);
}

template <class L>
Outputs elementwise_loss_reference(const ForwardArgs<typename L::Attrs>& args) {
  const DType result = loss_dtype(L::kName, args);
  const Tensor x = input_as(args, 0, compute_dtype(result));
  const Tensor losses = L::losses(args.attrs, x, input_as(args, 1, compute_dtype(result)));
  return to(reduced(losses, L::reduction(args.attrs)) * L::factor(args.attrs, x.shape()), result);
}

/// The factor on each element's slope.
template <class L>
double slope_scale(const typename L::Attrs& attrs, const Shape& x, const Shape& shape) {
  return reduction_scale(L::reduction(attrs), shape) * L::factor(attrs, x) * L::kSlopeFactor;
}

/// Inputs: grad, x, target.
template <class L>
Outputs elementwise_loss_backward(const ForwardArgs<WithDType<typename L::Attrs>>& args) {
  const Tensor &x = args.in(1), &target = args.in(2);
  L::check(args.attrs, x.shape());
  const Shape shape = layout::broadcast(L::kBackwardName, x.shape(), target.shape());
  const auto slope = L::slope(args.attrs);
  const SlopeGradientFn<decltype(slope)> gradient{slope, slope_scale<L>(args.attrs, x.shape(), shape)};
  return loss_gradient<2>(L::kBackwardName, gradient, args.in(0), {&x, &target}, shape,
                          {LossAttrs{L::reduction(args.attrs)}, args.attrs.dtype});
}

template <class L>
Outputs elementwise_loss_backward_reference(const ForwardArgs<WithDType<typename L::Attrs>>& args) {
  const DType dtype = args.in(0).dtype(), compute = compute_dtype(dtype);
  const Tensor &x = args.in(1), target = input_as(args, 2, compute);
  const Shape shape = layout::broadcast(L::kBackwardName, x.shape(), target.shape());
  const auto loss = [&](const Tensor& own) {
    return reduced(L::losses(args.attrs, own, target), L::reduction(args.attrs)) *
           L::factor(args.attrs, x.shape());
  };
  const Tensor found =
      composed_loss_gradient(input_as(args, 0, compute), expand(input_as(args, 1, compute), shape), loss);
  return to(found, args.attrs.dtype.value_or(dtype));
}

template <class L>
std::vector<Sample<WithDType<typename L::Attrs>>> elementwise_loss_backward_samples() {
  return loss_gradient_samples(L::samples(), [](const Sample<typename L::Attrs>& call) {
    const bool none = L::reduction(call.attrs) == Reduction::none;
    return none ? layout::broadcast(L::kName, call.inputs[0].shape, call.inputs[1].shape) : Shape{};
  });
}

template <class L>
constexpr Op<WithDType<typename L::Attrs>> kElementwiseLossBackward =
    gradient_op<WithDType<typename L::Attrs>>(L::kBackwardName, elementwise_loss_backward_samples<L>,
                                              elementwise_loss_backward<L>,
                                              elementwise_loss_backward_reference<L>);

/// Targets seldom need a gradient: theirs comes from the composition, unless the loss is symmetric.
template <class L>
Gradients elementwise_loss_vjp(const VjpArgs<typename L::Attrs>& args) {
  Gradients gradients(2);
  if (!L::kIsSymmetric && args.needs(1)) gradients = decomposed(args);
  const Tensor x = args.stored_in(0), target = args.stored_in(1);
  const Shape shape = layout::broadcast(L::kName, x.shape(), target.shape());
  const auto gradient = [&](std::size_t i, const Tensor& of, const Tensor& other) {
    const WithDType<typename L::Attrs> attrs{args.attrs, gradient_dtype(args, i, shape)};
    return Tensor(bind(kElementwiseLossBackward<L>, {args.grad(), of, other}, attrs));
  };
  if (args.needs(0)) gradients[0] = gradient(0, x, target);
  if (L::kIsSymmetric && args.needs(1)) gradients[1] = gradient(1, target, x);
  return gradients;
}

template <class L>
constexpr Op<typename L::Attrs> kElementwiseLoss =
    fused_op<typename L::Attrs>(L::kName, Category::fp32, L::samples, elementwise_loss<L>,
                                elementwise_loss_reference<L>, elementwise_loss_vjp<L>, save_inputs(0, 1));

}  // namespace mezzo::ops
