// The larger and smaller of two operands, and clamp, whose gradients go to whichever operand decided.
#include "mezzo/ops/pointwise.h"

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

struct MaximumBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T a, T b) const {
    const T share = a == b ? grad * T(0.5) : grad;
    return a < b ? T(0) : share;
  }
};
/// min(max(x, low), high), the bounds given as numbers or left out.
struct ClampFn {
  Number low, high;
  bool has_low = false, has_high = false;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    if (has_low) x = MaximumFn{}(x, low.as<T>());
    if (has_high) x = MinimumFn{}(x, high.as<T>());
    return x;
  }
};
struct ClampBackwardFn {
  Number low, high;
  bool has_low = false, has_high = false;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const bool above = !has_low | (x >= low.as<T>());
    const bool below = !has_high | (x <= high.as<T>());
    const bool inside = above & below;
    return inside ? grad : T(0);
  }
};
MEZZO_FUNCTOR(ClampTensorFn, T, (T x, T low, T high), MinimumFn{}(MaximumFn{}(x, low), high));

// --- maximum, minimum

template <class F>
Tensor choose(std::string_view op, const ForwardArgs<NoAttrs>& args) {
  const DType result = result_type({&args.in(0), &args.in(1)});
  return map_wrapped<2>(op, F{}, {&args.in(0), &args.in(1)}, result);
}
Outputs maximum_forward(const ForwardArgs<NoAttrs>& args) { return choose<MaximumFn>("maximum", args); }
Outputs minimum_forward(const ForwardArgs<NoAttrs>& args) { return choose<MinimumFn>("minimum", args); }
Gradients maximum_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor grad = args.grad(), a = args.in(0), b = args.in(1);
  return {args.needs(0) ? maximum_backward(grad, a, b) : Tensor(),
          args.needs(1) ? maximum_backward(grad, b, a) : Tensor()};
}
Gradients minimum_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor grad = args.grad(), a = args.in(0), b = args.in(1);
  return {args.needs(0) ? maximum_backward(grad, b, a) : Tensor(),
          args.needs(1) ? maximum_backward(grad, a, b) : Tensor()};
}
// Operands of different ranges: a tie would spoil finite differences.
std::vector<Sample<NoAttrs>> choose_samples() {
  return {{{op_samples::real({3, 5}, -2, -0.1), op_samples::real({3, 5}, 0, 2)}},
          {{op_samples::real({4, 1, 3}, 0.1, 2), op_samples::real({2, 1}, -2, 0)}}};
}
constexpr Op<NoAttrs> maximum_op = elementwise_op("maximum", Category::passthrough, choose_samples,
                                                  maximum_forward, maximum_vjp, save_inputs(0, 1));
constexpr Op<NoAttrs> minimum_op = elementwise_op("minimum", Category::passthrough, choose_samples,
                                                  minimum_forward, minimum_vjp, save_inputs(0, 1));

Outputs maximum_backward_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &grad = args.in(0), &a = args.in(1), &b = args.in(2);
  require_floating("maximum_backward", grad);
  // Compared in the dtype that maximum compared them in; the gradient keeps its own.
  const DType compute = result_type({&grad, &a, &b});
  return map<3>("maximum_backward", MaximumBackwardFn{}, {&grad, &a, &b}, compute_dtype(compute),
                grad.dtype());
}
Gradients maximum_backward_vjp(const VjpArgs<NoAttrs>& args) {
  return {args.needs(0) ? maximum_backward(args.grad(), args.in(1), args.in(2)) : Tensor(),
          zeros_for(args, 1), zeros_for(args, 2)};
}
std::vector<Sample<NoAttrs>> maximum_backward_samples() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5}, -2, -0.1), op_samples::real({5}, 0, 2)}}};
}
constexpr Op<NoAttrs> maximum_backward_op =
    elementwise_op("maximum_backward", Category::passthrough, maximum_backward_samples,
                   maximum_backward_forward, maximum_backward_vjp, save_inputs(1, 2));

// --- clamp between numbers

struct ClampAttrs {
  std::optional<Scalar> min, max;
  MEZZO_FIELDS(ClampAttrs, min, max)
};

/// Fills a functor with the bounds, as numbers of x's dtype.
template <class F>
F bounded(const ClampAttrs& attrs, DType dtype) {
  F f;
  f.has_low = attrs.min.has_value();
  f.has_high = attrs.max.has_value();
  if (f.has_low) f.low = rounded_to(*attrs.min, dtype);
  if (f.has_high) f.high = rounded_to(*attrs.max, dtype);
  return f;
}
[[noreturn]] void refuse_no_bounds() {
  throw ValueError("clamp", "at least one bound", "none", "pass min or max");
}

Outputs clamp_forward(const ForwardArgs<ClampAttrs>& args) {
  const Tensor& x = args.in(0);
  const ClampAttrs& attrs = args.attrs;
  if (!attrs.min && !attrs.max) refuse_no_bounds();
  ResultType type;
  type.add(x);
  if (attrs.min) type.add(*attrs.min);
  if (attrs.max) type.add(*attrs.max);
  const DType result = type.get();
  return map_one(bounded<ClampFn>(attrs, result), x, compute_dtype(result), result);
}
Gradients clamp_vjp(const VjpArgs<ClampAttrs>& args) {
  return {clamp_backward(args.grad(), args.in(0), args.attrs.min, args.attrs.max)};
}
std::vector<Sample<ClampAttrs>> clamp_samples() {
  return {{{op_samples::smooth({3, 5}, 0.25)}, {{}, 0.25}},
          {{op_samples::smooth({4}, -0.5)}, {-0.5, {}}},
          {{op_samples::smooth({3, 5}, -1)}, {-1, 3}}};
}
constexpr Op<ClampAttrs> clamp_op = elementwise_op<ClampAttrs>("clamp", Category::passthrough, clamp_samples,
                                                               clamp_forward, clamp_vjp, save_inputs(0));

Outputs clamp_backward_forward(const ForwardArgs<ClampAttrs>& args) {
  const Tensor &grad = args.in(0), &x = args.in(1);
  require_floating("clamp_backward", grad);
  const DType compute = compute_dtype(result_type({&grad, &x}));
  return map<2>("clamp_backward", bounded<ClampBackwardFn>(args.attrs, x.dtype()), {&grad, &x}, compute,
                grad.dtype());
}
Gradients clamp_backward_vjp(const VjpArgs<ClampAttrs>& args) {
  const ClampAttrs& attrs = args.attrs;
  return {args.needs(0) ? clamp_backward(args.grad(), args.in(1), attrs.min, attrs.max) : Tensor(),
          zeros_for(args, 1)};
}
std::vector<Sample<ClampAttrs>> clamp_backward_samples() {
  return {{{op_samples::real({3, 5}), op_samples::smooth({3, 5}, 0.25)}, {{}, 0.25}}};
}
constexpr Op<ClampAttrs> clamp_backward_op =
    elementwise_op<ClampAttrs>("clamp_backward", Category::passthrough, clamp_backward_samples,
                               clamp_backward_forward, clamp_backward_vjp, save_inputs(1));

// --- clamp between tensors

Outputs clamp_tensor_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &x = args.in(0), &low = args.in(1), &high = args.in(2);
  if (!low.defined() && !high.defined()) refuse_no_bounds();
  const DType result = result_type({&x, &low, &high});
  if (!high.defined()) return map_wrapped<2>("clamp", MaximumFn{}, {&x, &low}, result);
  if (!low.defined()) return map_wrapped<2>("clamp", MinimumFn{}, {&x, &high}, result);
  return map_wrapped<3>("clamp", ClampTensorFn{}, {&x, &low, &high}, result);
}
Gradients clamp_tensor_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor grad = args.grad(), x = args.in(0), low = args.in(1), high = args.in(2);
  Gradients result{Tensor(), Tensor(), Tensor()};
  if (args.needs(0)) {
    result[0] = grad;
    if (low.defined()) result[0] = where(lt(x, low), 0, result[0]);
    if (high.defined()) result[0] = where(gt(x, high), 0, result[0]);
  }
  if (args.needs(1)) {
    Tensor decides = lt(x, low);
    if (high.defined()) decides = logical_and(decides, lt(low, high));
    result[1] = where(decides, grad, 0);
  }
  if (args.needs(2)) {
    Tensor decides = gt(x, high);
    if (low.defined()) decides = logical_or(decides, lt(high, low));
    result[2] = where(decides, grad, 0);
  }
  return result;
}
std::vector<Sample<NoAttrs>> clamp_tensor_samples() {
  return {{{op_samples::real({3, 5}, 0, 1), op_samples::real({5}, 1.1, 2), op_samples::real({3, 1}, 2.1, 3)}},
          {{op_samples::real({3, 5}, 0, 1), op_samples::real({5}, -2, -0.1), op_samples::absent()}},
          {{op_samples::real({3, 5}, 0, 1), op_samples::absent(), op_samples::real({3, 1}, -1, -0.1)}}};
}
constexpr Op<NoAttrs> clamp_tensor_op =
    elementwise_op("clamp_tensor", Category::passthrough, clamp_tensor_samples, clamp_tensor_forward,
                   clamp_tensor_vjp, save_inputs(0, 1, 2), tensor_set(1, 2));

const Registered clamp_registered{maximum_op, minimum_op,        maximum_backward_op,
                                  clamp_op,   clamp_backward_op, clamp_tensor_op};

}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) { return bind(maximum_op, {a, b}); }
Tensor minimum(const Tensor& a, const Tensor& b) { return bind(minimum_op, {a, b}); }
Tensor maximum_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return bind(maximum_backward_op, {grad, a, b});
}
Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) {
  return bind(clamp_op, {x}, {min, max});
}
Tensor clamp_min(const Tensor& x, Scalar min) { return clamp(x, min); }
Tensor clamp_max(const Tensor& x, Scalar max) { return clamp(x, {}, max); }
Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max) {
  return bind(clamp_tensor_op, {x, min, max});
}
Tensor clamp_backward(const Tensor& grad, const Tensor& x, std::optional<Scalar> min,
                      std::optional<Scalar> max) {
  return bind(clamp_backward_op, {grad, x}, {min, max});
}

}  // namespace mezzo
