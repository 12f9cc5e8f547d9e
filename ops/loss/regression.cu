// mse_loss and l1_loss: forward in one pass and the gradient of x in another. The target's gradient is x's
// with the two exchanged.
#include <array>

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/reduce/reduce.h"
#include "mezzo/ops/loss/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;
using op_samples::real;

using LossBackwardAttrs = WithDType<LossAttrs>;

// --- scalar math

struct SquaredErrorFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T difference = x - target;
    return difference * difference;
  }
};
/// Half of its slope.
MEZZO_FUNCTOR(DifferenceFn, T, (T x, T target), x - target);
MEZZO_FUNCTOR(AbsoluteErrorFn, T, (T x, T target), AbsFn{}(x - target));
MEZZO_FUNCTOR(AbsoluteErrorSlopeFn, T, (T x, T target), SignFn{}(x - target));

/// slope(x, target) times the gradient of the loss.
template <class Slope>
struct SlopeGradientFn {
  double scale;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, T target) const {
    return Slope{}(x, target) * (T(scale) * grad);
  }
};

/// A distance is a struct of names, functors of (x, target), a factor of all slopes, and the loss as a plain
/// composition.
struct SquaredError {
  static constexpr std::string_view kName = "mse_loss", kBackwardName = "mse_loss_backward";
  using Loss = SquaredErrorFn;
  using Slope = DifferenceFn;
  static constexpr double kSlopeFactor = 2;
  static Tensor losses(const Tensor& x, const Tensor& target) { return square(x - target); }
};
struct AbsoluteError {
  static constexpr std::string_view kName = "l1_loss", kBackwardName = "l1_loss_backward";
  using Loss = AbsoluteErrorFn;
  using Slope = AbsoluteErrorSlopeFn;
  static constexpr double kSlopeFactor = 1;
  static Tensor losses(const Tensor& x, const Tensor& target) { return abs(x - target); }
};

std::vector<Sample<LossAttrs>> distance_samples() {
  // x and target lie apart, so that no sample comes near the kink of l1_loss.
  return {{{real({3, 5}), real({3, 5}, 3, 5)}, {Reduction::mean}},
          {{real({3, 5}, 3, 5), real({5})}, {Reduction::sum}},
          {{real({3, 5}), real({3, 1}, 3, 5)}, {Reduction::none}},
          {{real({}), real({}, 3, 5)}, {Reduction::mean}}};
}

template <class L>
Outputs distance_forward(const ForwardArgs<LossAttrs>& args) {
  const Tensor &x = args.in(0), &target = args.in(1);
  const DType result = loss_dtype(L::kName, args), compute = compute_dtype(result);
  const Shape shape = layout::broadcast(L::kName, x.shape(), target.shape());
  const std::array views{expanded_view(L::kName, x, shape), expanded_view(L::kName, target, shape)};
  const Reduction reduction = args.attrs.reduction;
  const bool reduces = reduction != Reduction::none;
  Tensor out =
      empty(reduces ? Shape{} : shape,
            {.dtype = result,
             .device = x.device(),
             .memory_format = reduces ? MemoryFormat::contiguous : common_format<2>(shape, {&x, &target})});
  const typename L::Loss loss;
  if (!reduces)
    kernels::pointwise_real(x.device(), loss, view_of(out), views, compute);
  else if (reduction == Reduction::sum)
    kernels::map_reduce(x.device(), loss, view_of(out), views, compute, kernels::kKeepSum);
  else
    kernels::map_reduce(x.device(), loss, view_of(out), views, compute, kernels::kDivideByCount);
  return out;
}
template <class L>
Outputs distance_reference(const ForwardArgs<LossAttrs>& args) {
  return elementwise_loss(L::kName, args, args.attrs.reduction, L::losses);
}

/// Inputs: grad, x, target. Computes in the type of grad, which is the loss's: inputs that autocast left in
/// 16 bits are widened here.
template <class L>
Outputs distance_backward(const ForwardArgs<LossBackwardAttrs>& args) {
  const Tensor &grad = args.in(0), &x = args.in(1), &target = args.in(2);
  for (const TensorRef& input : args.inputs) require_floating(L::kBackwardName, input);
  const Shape shape = layout::broadcast(L::kBackwardName, x.shape(), target.shape());
  require_loss_grad(L::kBackwardName, grad, args.attrs.reduction, shape);
  const auto view = [&](const Tensor& input) { return expanded_view(L::kBackwardName, input, shape); };
  Tensor out = empty(shape, {.dtype = args.attrs.dtype.value_or(grad.dtype()),
                             .device = grad.device(),
                             .memory_format = common_format<2>(shape, {&x, &target})});
  const SlopeGradientFn<typename L::Slope> gradient{reduction_scale(args.attrs.reduction, shape) *
                                                    L::kSlopeFactor};
  kernels::pointwise_real(grad.device(), gradient, view_of(out),
                          std::array{view(grad), view(x), view(target)}, compute_dtype(grad.dtype()));
  return out;
}
template <class L>
Outputs distance_backward_reference(const ForwardArgs<LossBackwardAttrs>& args) {
  const DType dtype = args.in(0).dtype(), compute = compute_dtype(dtype);
  const Tensor target = input_as(args, 2, compute);
  const Shape shape = layout::broadcast(L::kBackwardName, args.in(1).shape(), target.shape());
  const Tensors found = composed_gradients(
      {expand(input_as(args, 1, compute), shape)}, std::array<bool, 1>{true}, {input_as(args, 0, compute)},
      [&](const Tensors& x) -> Outputs { return reduced(L::losses(x[0], target), args.attrs.reduction); });
  return to(found[0], args.attrs.dtype.value_or(dtype));
}
std::vector<Sample<LossBackwardAttrs>> distance_backward_samples() {
  std::vector<Sample<LossBackwardAttrs>> list;
  for (const Sample<LossAttrs>& call : distance_samples()) {
    const Shape &x = call.inputs[0].shape, &target = call.inputs[1].shape;
    if (x.empty()) continue;  // shows nothing that the others do not
    const bool none = call.attrs.reduction == Reduction::none;
    list.push_back({call.inputs, {call.attrs}});
    list.back().inputs.insert(list.back().inputs.begin(),
                              real(none ? layout::broadcast("mse_loss", x, target) : Shape{}));
  }
  return list;
}
template <class L>
constexpr Op<LossBackwardAttrs> kDistanceBackward = gradient_op<LossBackwardAttrs>(
    L::kBackwardName, distance_backward_samples, distance_backward<L>, distance_backward_reference<L>);

template <class L>
Gradients distance_vjp(const VjpArgs<LossAttrs>& args) {
  Gradients gradients(2);
  const Shape shape = layout::broadcast(L::kName, args.in_shape(0), args.in_shape(1));
  for (std::size_t i = 0; i < 2; ++i) {
    if (!args.needs(i)) continue;
    // The dtype that is wanted behind a cast, written at once; but the loss's dtype where the engine still
    // has to sum over broadcast dims, so that the sum is not of rounded values.
    const DType dtype = args.in_shape(i) == shape ? args.wanted(i) : args.out_dtype();
    gradients[i] = bind(kDistanceBackward<L>, {args.grad(), args.stored_in(i), args.stored_in(1 - i)},
                        LossBackwardAttrs{args.attrs, dtype});
  }
  return gradients;
}
template <class L>
constexpr Op<LossAttrs> kDistance = fused_op<LossAttrs>(L::kName, Category::fp32, distance_samples,
                                                        distance_forward<L>, distance_reference<L>,
                                                        distance_vjp<L>, save_inputs(0, 1));

const Registered regression_registered{kDistance<SquaredError>, kDistanceBackward<SquaredError>,
                                       kDistance<AbsoluteError>, kDistanceBackward<AbsoluteError>};

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return bind(kDistance<SquaredError>, {x, target}, LossAttrs{reduction});
}

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return bind(kDistance<AbsoluteError>, {x, target}, LossAttrs{reduction});
}

}  // namespace mezzo
