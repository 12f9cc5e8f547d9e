// Activations of two or three pieces: leaky_relu, prelu, the hard ones, and the elu family.
#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/activation_common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

namespace math = kernels::math;

using math::detail::select;

struct LeakyReluFn {
  double negative_slope;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return select(x > T(0), x, x * T(negative_slope));
  }
};
struct LeakyReluBackwardFn {
  double negative_slope;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    return select(x > T(0), grad, grad * T(negative_slope));
  }
};
struct PreluFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T weight) const {
    return select(x > T(0), x, x * weight);
  }
};
struct HardtanhFn {
  double min, max;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T at_least = x < T(min) ? T(min) : x;
    return at_least > T(max) ? T(max) : at_least;
  }
};
struct HardtanhBackwardFn {
  double min, max;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const bool outside = (x <= T(min)) | (x >= T(max));
    return outside ? T(0) : grad;
  }
};
MEZZO_FUNCTOR(HardsigmoidFn, T, (T x), HardtanhFn{0, 6}(x + T(3)) / T(6));
struct HardsigmoidBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const bool inside = (x > T(-3)) & (x < T(3));
    return select(inside, grad / T(6), T(0));
  }
};
struct HardswishFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return x * HardtanhFn{0, 6}(x + T(3)) / T(6);
  }
};
struct HardswishBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T inside = select(x <= T(3), grad * (x / T(3) + T(0.5)), grad);
    return x < T(-3) ? T(0) : inside;
  }
};
/// positive * x above 0, negative * (e^(inner * x) - 1) below: elu, celu and selu.
struct EluCoefficients {
  double negative = 1, positive = 1, inner = 1;
};
struct EluFn {
  static constexpr bool kFuses16Bit = true;
  EluCoefficients c;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T below = math::expm1(x * T(c.inner)) * T(c.negative);
    return select(x > T(0), x * T(c.positive), below);
  }
};
struct EluBackwardFn {
  EluCoefficients c;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T below = math::exp(x * T(c.inner)) * T(c.negative * c.inner);
    return grad * select(x <= T(0), below, T(c.positive));  // NaN goes with the positive, as in PyTorch
  }
};

// --- leaky_relu

struct LeakyReluAttrs {
  double negative_slope = 0.01;
  MEZZO_FIELDS(LeakyReluAttrs, negative_slope)
};
struct LeakyRelu : PiecewiseLinear {
  using Attrs = LeakyReluAttrs;
  static constexpr std::string_view name = "leaky_relu", backward_name = "leaky_relu_backward";
  static std::vector<Sample<Attrs>> samples() {
    return {{{op_samples::smooth({3, 5})}}, {{op_samples::smooth({4})}, {-0.3}}};
  }
  static LeakyReluFn function(const Attrs& attrs) { return {attrs.negative_slope}; }
  static LeakyReluBackwardFn backward(const Attrs& attrs) { return {attrs.negative_slope}; }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& attrs) {
    return where(gt(x, 0), grad, mul(grad, attrs.negative_slope));
  }
};
const RegisteredActivation<LeakyRelu> leaky_relu_registered;

// --- hardtanh, relu6

Tensor between(const Tensor& grad, const Tensor& x, double min, double max) {
  return where(logical_or(le(x, min), ge(x, max)), 0, grad);
}

struct HardtanhAttrs {
  double min_val = -1, max_val = 1;
  MEZZO_FIELDS(HardtanhAttrs, min_val, max_val)
};
struct Hardtanh : PiecewiseLinear {
  using Attrs = HardtanhAttrs;
  static constexpr std::string_view name = "hardtanh", backward_name = "hardtanh_backward";
  static std::vector<Sample<Attrs>> samples() {
    return {{{op_samples::real({3, 5}, -0.9, 0.9)}},
            {{op_samples::real({4}, 1.1, 2)}},
            {{op_samples::smooth({3, 5}, -0.5)}, {-0.5, 2.1}}};
  }
  static HardtanhFn function(const Attrs& attrs) {
    if (attrs.min_val > attrs.max_val) {
      throw ValueError(name, "min_val <= max_val",
                       number_text(attrs.min_val) + " and " + number_text(attrs.max_val),
                       "exchange the bounds");
    }
    return {attrs.min_val, attrs.max_val};
  }
  static HardtanhBackwardFn backward(const Attrs& attrs) { return {attrs.min_val, attrs.max_val}; }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& attrs) {
    return between(grad, x, attrs.min_val, attrs.max_val);
  }
};
const RegisteredActivation<Hardtanh> hardtanh_registered;

struct Relu6 : PiecewiseLinear {
  using Attrs = NoAttrs;
  static constexpr std::string_view name = "relu6", backward_name = "relu6_backward";
  static std::vector<Sample<Attrs>> samples() {
    return {{{op_samples::smooth({3, 5})}},
            {{op_samples::real({4}, 5.2, 5.9)}},
            {{op_samples::real({4}, 6.1, 8)}}};
  }
  static HardtanhFn function(const Attrs& /*attrs*/) { return {0, 6}; }
  static HardtanhBackwardFn backward(const Attrs& /*attrs*/) { return {0, 6}; }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    return between(grad, x, 0, 6);
  }
};
const RegisteredActivation<Relu6> relu6_registered;

// --- hardsigmoid, hardswish

std::vector<Sample<NoAttrs>> around_three_samples() {
  return {{{op_samples::real({3, 5}, -2.9, 2.9)}},
          {{op_samples::real({4}, 3.1, 5)}},
          {{op_samples::real({4}, -5, -3.1)}}};
}

struct Hardsigmoid : PlainActivation<PiecewiseLinear, HardsigmoidFn, HardsigmoidBackwardFn> {
  static constexpr std::string_view name = "hardsigmoid", backward_name = "hardsigmoid_backward";
  static std::vector<Sample<Attrs>> samples() { return around_three_samples(); }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    return where(logical_and(gt(x, -3), lt(x, 3)), div(grad, 6), 0);
  }
};
const RegisteredActivation<Hardsigmoid> hardsigmoid_registered;

struct Hardswish : PlainActivation<Curved, HardswishFn, HardswishBackwardFn> {
  static constexpr std::string_view name = "hardswish", backward_name = "hardswish_backward";
  static std::vector<Sample<Attrs>> samples() { return around_three_samples(); }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    const Tensor inside = where(le(x, 3), mul(grad, add(div(x, 3), 0.5)), grad);
    return where(lt(x, -3), 0, inside);
  }
};
const RegisteredActivation<Hardswish> hardswish_registered;

// --- elu, celu, selu: one formula with other coefficients

struct AlphaAttrs {
  double alpha = 1;
  MEZZO_FIELDS(AlphaAttrs, alpha)
};
struct EluCurve {
  using Attrs = AlphaAttrs;
  static constexpr std::string_view name = "elu", backward_name = "elu_backward";
  static EluCoefficients coefficients(const Attrs& attrs) { return {attrs.alpha, 1, 1}; }
};
struct CeluCurve {
  using Attrs = AlphaAttrs;
  static constexpr std::string_view name = "celu", backward_name = "celu_backward";
  static EluCoefficients coefficients(const Attrs& attrs) {
    if (attrs.alpha == 0) throw ValueError(name, "an alpha other than 0", "0", "use relu");
    return {attrs.alpha, 1, 1 / attrs.alpha};
  }
};
struct SeluCurve {
  using Attrs = NoAttrs;
  static constexpr std::string_view name = "selu", backward_name = "selu_backward";
  static EluCoefficients coefficients(const Attrs& /*attrs*/) {
    constexpr double kAlpha = 1.6732632423543772848, kScale = 1.0507009873554804934;
    return {kAlpha * kScale, kScale, 1};
  }
};

template <class Curve>
struct EluFamily : Curve, Curved {
  using Attrs = typename Curve::Attrs;
  static std::vector<Sample<Attrs>> samples() {
    std::vector<Sample<Attrs>> list{{{op_samples::smooth({3, 5})}}, {{op_samples::smooth({4})}}};
    if constexpr (std::is_same_v<Attrs, AlphaAttrs>) list[1].attrs.alpha = 0.3;
    return list;
  }
  static EluFn function(const Attrs& attrs) { return {Curve::coefficients(attrs)}; }
  static EluBackwardFn backward(const Attrs& attrs) { return {Curve::coefficients(attrs)}; }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& attrs) {
    const EluCoefficients c = Curve::coefficients(attrs);
    // No exponential of a positive x: where it is infinite, 0 times it would be NaN in the next derivative.
    const Tensor below = mul(exp(mul(clamp(x, {}, 0), c.inner)), c.negative * c.inner);
    return where(le(x, 0), mul(grad, below), mul(grad, c.positive));
  }
};
const RegisteredActivation<EluFamily<EluCurve>> elu_registered;
const RegisteredActivation<EluFamily<CeluCurve>> celu_registered;
const RegisteredActivation<EluFamily<SeluCurve>> selu_registered;

// --- prelu

/// The weight's shape beside x: [1, C, 1, ...] for a weight per channel.
Shape weight_shape(const Tensor& x, const Tensor& weight) {
  Shape shape(x.shape().size(), 1);
  if (weight.dim() > 1)
    throw ShapeError("prelu", "a weight of at most one dim", to_string(weight.shape()), "flatten it");
  if (weight.numel() == 1) return shape;
  const std::int64_t channels = x.dim() < 2 ? 1 : x.shape()[1];
  if (weight.numel() != channels) {
    throw ShapeError("prelu", "a weight of 1 or " + std::to_string(channels) + " elements",
                     std::to_string(weight.numel()), "give one for each channel (dim 1 of the input)");
  }
  shape[1] = channels;
  return shape;
}
Outputs prelu_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &x = args.in(0), &weight = args.in(1);
  require_floating("prelu", x);
  require_floating("prelu", weight);
  const Tensor beside = reshape(weight, weight_shape(x, weight));
  return map_two_real("prelu", PreluFn{}, x, beside, result_type({&x, &weight}));
}
Outputs prelu_reference(const ForwardArgs<NoAttrs>& args) {
  const DType result = result_type({&args.in(0), &args.in(1)});
  const Tensor x = widened(args.in(0)), weight = widened(args.in(1));
  const Tensor beside = reshape(weight, weight_shape(x, weight));
  // The weight multiplies no positive x: where that is infinite, 0 times it would be NaN in its gradient.
  const Tensor positive = gt(x, 0);
  return to(where(positive, x, mul(where(positive, 0, x), beside)), result);
}
std::vector<Sample<NoAttrs>> prelu_samples() {
  return {{{op_samples::smooth({3, 5}), op_samples::real({1})}},
          {{op_samples::smooth({2, 3, 4}), op_samples::real({3})}},
          {{op_samples::smooth({4}), op_samples::real({})}}};
}
constexpr Op<NoAttrs> prelu_op =
    fused_op<NoAttrs>("prelu", Category::lower_precision, prelu_samples, prelu_forward, prelu_reference,
                      kDecomposed, save_inputs(0, 1));
const Registered prelu_registered{prelu_op};

}  // namespace

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return bind(kActivationOp<LeakyRelu>, {x}, {negative_slope});
}
Tensor hardtanh(const Tensor& x, double min_val, double max_val) {
  return bind(kActivationOp<Hardtanh>, {x}, {min_val, max_val});
}
Tensor relu6(const Tensor& x) { return bind(kActivationOp<Relu6>, {x}); }
Tensor hardsigmoid(const Tensor& x) { return bind(kActivationOp<Hardsigmoid>, {x}); }
Tensor hardswish(const Tensor& x) { return bind(kActivationOp<Hardswish>, {x}); }
Tensor elu(const Tensor& x, double alpha) { return bind(kActivationOp<EluFamily<EluCurve>>, {x}, {alpha}); }
Tensor celu(const Tensor& x, double alpha) { return bind(kActivationOp<EluFamily<CeluCurve>>, {x}, {alpha}); }
Tensor selu(const Tensor& x) { return bind(kActivationOp<EluFamily<SeluCurve>>, {x}); }
Tensor prelu(const Tensor& x, const Tensor& weight) { return bind(prelu_op, {x, weight}); }

}  // namespace mezzo
