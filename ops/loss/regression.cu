// mse_loss and l1_loss, and their gradients in one pass.
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/ops/loss/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

struct SquaredErrorFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T difference = x - target;
    return difference * difference;
  }
};
struct SquaredErrorGradientFn {
  double scale;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, T target) const {
    return (x - target) * (T(2 * scale) * grad);
  }
};
struct AbsoluteErrorFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    return AbsFn{}(x - target);
  }
};
struct AbsoluteErrorGradientFn {
  double scale;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x, T target) const {
    return SignFn{}(x - target) * (T(scale) * grad);
  }
};

using LossArgs = ForwardArgs<LossAttrs>;
using LossBackwardArgs = ForwardArgs<LossBackwardAttrs>;

enum class Distance { squared, absolute };

constexpr std::string_view name_of(Distance distance) {
  return distance == Distance::squared ? "mse_loss" : "l1_loss";
}
constexpr std::string_view backward_name_of(Distance distance) {
  return distance == Distance::squared ? "mse_loss_backward" : "l1_loss_backward";
}

template <Distance kDistance>
Outputs regression_forward(const LossArgs& args) {
  constexpr std::string_view kName = name_of(kDistance);
  using Fn = std::conditional_t<kDistance == Distance::squared, SquaredErrorFn, AbsoluteErrorFn>;
  const Tensor& x = args.in(0);
  const Tensor& target = args.in(1);
  const DType result = loss_dtype(kName, args);
  const Shape shape = layout::broadcast(kName, x.shape(), target.shape());
  return reduced_loss<2>(kName, Fn{}, {&x, &target}, shape, args.attrs.reduction, result);
}

template <Distance kDistance>
Outputs regression_reference(const LossArgs& args) {
  const DType result = loss_dtype(name_of(kDistance), args);
  const Tensor difference =
      input_as(args, 0, compute_dtype(result)) - input_as(args, 1, compute_dtype(result));
  const Tensor losses = kDistance == Distance::squared ? square(difference) : abs(difference);
  return to(reduced(losses, args.attrs.reduction), result);
}

/// Inputs: grad, x, target.
template <Distance kDistance>
Outputs regression_backward_forward(const LossBackwardArgs& args) {
  constexpr std::string_view kName = backward_name_of(kDistance);
  using Fn =
      std::conditional_t<kDistance == Distance::squared, SquaredErrorGradientFn, AbsoluteErrorGradientFn>;
  const Tensor& x = args.in(1);
  const Tensor& target = args.in(2);
  const Shape shape = layout::broadcast(kName, x.shape(), target.shape());
  const Fn gradient{reduction_scale(args.attrs.reduction, shape)};
  return loss_gradient<2>(kName, gradient, args.in(0), {&x, &target}, shape, args.attrs);
}

template <Distance kDistance>
Outputs regression_backward_reference(const LossBackwardArgs& args) {
  const DType compute = compute_dtype(args.in(0).dtype());
  const Tensor difference = input_as(args, 1, compute) - input_as(args, 2, compute);
  const Tensor slope = kDistance == Distance::squared ? difference * 2 : sign(difference);
  const Tensor grad = input_as(args, 0, compute) * reduction_scale(args.attrs.reduction, difference.shape());
  return to(slope * grad, args.attrs.dtype.value_or(args.in(0).dtype()));
}

std::vector<Sample<LossBackwardAttrs>> regression_backward_samples() {
  return {
      {{op_samples::real({}), op_samples::real({3, 5}), op_samples::real({3, 5}, 3, 5)}, {Reduction::mean}},
      {{op_samples::real({}), op_samples::real({3, 5}, 3, 5), op_samples::real({5})}, {Reduction::sum}},
      {{op_samples::real({3, 5}), op_samples::real({3, 5}), op_samples::real({3, 1}, 3, 5)},
       {Reduction::none}}};
}
template <Distance kDistance>
constexpr Op<LossBackwardAttrs> kBackwardOp = gradient_op<LossBackwardAttrs>(
    backward_name_of(kDistance), regression_backward_samples, regression_backward_forward<kDistance>,
    regression_backward_reference<kDistance>);

/// Both distances are symmetric, so the target's gradient is x's with the two exchanged.
template <Distance kDistance>
Gradients regression_vjp(const VjpArgs<LossAttrs>& args) {
  const Tensor x = args.stored_in(0);
  const Tensor target = args.stored_in(1);
  const Shape shape = layout::broadcast(name_of(kDistance), x.shape(), target.shape());
  const auto gradient = [&](std::size_t i, const Tensor& of, const Tensor& other) {
    if (!args.needs(i)) return Tensor();
    const LossBackwardAttrs attrs{args.attrs.reduction, gradient_dtype(args, i, shape)};
    return Tensor(bind(kBackwardOp<kDistance>, {args.grad(), of, other}, attrs));
  };
  return {gradient(0, x, target), gradient(1, target, x)};
}

std::vector<Sample<LossAttrs>> regression_samples() {
  // x and target lie apart, so that no sample comes near the kink of l1_loss.
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5}, 3, 5)}, {Reduction::mean}},
          {{op_samples::real({3, 5}, 3, 5), op_samples::real({5})}, {Reduction::sum}},
          {{op_samples::real({3, 5}), op_samples::real({3, 1}, 3, 5)}, {Reduction::none}},
          {{op_samples::real({}), op_samples::real({}, 3, 5)}, {Reduction::mean}}};
}
template <Distance kDistance>
constexpr Op<LossAttrs> kForwardOp = fused_op<LossAttrs>(name_of(kDistance), Category::fp32,
                                                         regression_samples, regression_forward<kDistance>,
                                                         regression_reference<kDistance>,
                                                         regression_vjp<kDistance>, save_inputs(0, 1));

const Registered regression_registered{kForwardOp<Distance::squared>, kBackwardOp<Distance::squared>,
                                       kForwardOp<Distance::absolute>, kBackwardOp<Distance::absolute>};

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return bind(kForwardOp<Distance::squared>, {x, target}, LossAttrs{reduction});
}

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return bind(kForwardOp<Distance::absolute>, {x, target}, LossAttrs{reduction});
}

}  // namespace mezzo
