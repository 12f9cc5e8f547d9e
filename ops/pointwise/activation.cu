// Smooth activations, and their gradients as ops of one pass each.
#include "mezzo/ops/pointwise.h"

#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/elementary.h"
#include "mezzo/ops/pointwise/activation_common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

namespace math = kernels::math;

using math::detail::Fused;

struct SigmoidFn : MathFn<math::sigmoid, math::sigmoid, true> {
  MEZZO_HD MEZZO_ALWAYS_INLINE float of_16_bits(float x) const { return math::sigmoid<Fused>(x); }
};
struct SiluFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return x * math::sigmoid(x);
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE float of_16_bits(float x) const { return x * math::sigmoid<Fused>(x); }
};
struct SiluBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T s = math::sigmoid(x);
    return grad * (s * (T(1) + x * (T(1) - s)));
  }
};
struct GeluFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return x * normal(x).cdf;
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE float of_16_bits(float x) const { return x * normal<Fused>(x).cdf; }
};
inline constexpr double kInverseSqrt2Pi = 0.39894228040143267794;
struct GeluBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const auto [cdf, bell] = normal(x);
    return grad * (cdf + x * (T(kInverseSqrt2Pi) * bell));
  }
};
/// Constants of the tanh form of gelu, x/2 (1 + tanh u(x)) = x sigmoid(2 u(x)), where 1 + tanh would have no
/// digits left in the left tail: u(x) = kGeluScale (x + kGeluCubic x^3).
inline constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;
struct GeluTanhFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return x * math::sigmoid(exponent(x));
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE float of_16_bits(float x) const {
    return x * math::sigmoid<Fused>(exponent(x));
  }
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE static T exponent(T x) {
    return T(2 * kGeluScale) * (x + T(kGeluCubic) * x * x * x);
  }
};
struct GeluTanhBackwardFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T square = x * x;
    const T s = math::sigmoid(T(2 * kGeluScale) * (x + T(kGeluCubic) * square * x));
    const T slope = T(2 * kGeluScale) * (T(1) + T(3 * kGeluCubic) * square);
    // Far out the sigmoid is flat and the slope may be infinite.
    const T bend = x * (s * (T(1) - s)) * slope;
    return grad * (s + (square < T(1e6) ? bend : T(0)));
  }
};

using Args = ForwardArgs<NoAttrs>;
using Vjps = VjpArgs<NoAttrs>;

std::vector<Sample<NoAttrs>> backward_samples() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5}, 0.1, 0.9)}}};
}

// --- sigmoid

Gradients sigmoid_vjp(const Vjps& args) { return {sigmoid_backward(args.grad(), args.out())}; }
constexpr Op<NoAttrs> sigmoid_op = elementwise_op("sigmoid", Category::passthrough, any_samples,
                                                  real_unary<SigmoidFn>, sigmoid_vjp, save_outputs(0));

Outputs sigmoid_backward_forward(const Args& args) {
  return map_backward("sigmoid_backward", SigmoidBackwardFn{}, args.in(0), args.in(1));
}
Outputs sigmoid_backward_reference(const Args& args) {
  const Tensor grad = widened(args.in(0)), out = widened(args.in(1));
  return to(mul(grad, mul(out, sub(1, out))), args.in(0).dtype());
}
constexpr Op<NoAttrs> sigmoid_backward_op = pointwise_gradient_op(
    "sigmoid_backward", backward_samples, sigmoid_backward_forward, sigmoid_backward_reference);

// --- tanh

Gradients tanh_vjp(const Vjps& args) { return {tanh_backward(args.grad(), args.out())}; }
constexpr Op<NoAttrs> tanh_op =
    elementwise_op("tanh", Category::passthrough, any_samples, real_unary<TanhFn>, tanh_vjp, save_outputs(0));

Outputs tanh_backward_forward(const Args& args) {
  return map_backward("tanh_backward", TanhBackwardFn{}, args.in(0), args.in(1));
}
Outputs tanh_backward_reference(const Args& args) {
  const Tensor grad = widened(args.in(0)), out = widened(args.in(1));
  return to(mul(grad, sub(1, square(out))), args.in(0).dtype());
}
constexpr Op<NoAttrs> tanh_backward_op =
    pointwise_gradient_op("tanh_backward", backward_samples, tanh_backward_forward, tanh_backward_reference);

// --- silu

struct Silu : PlainActivation<Curved, SiluFn, SiluBackwardFn> {
  static constexpr std::string_view name = "silu", backward_name = "silu_backward";
  static std::vector<Sample<NoAttrs>> samples() { return any_samples(); }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const NoAttrs& /*attrs*/) {
    const Tensor s = sigmoid(x);
    return mul(grad, mul(s, add(mul(x, sub(1, s)), 1)));
  }
};
const RegisteredActivation<Silu> silu_registered;

// --- gelu

struct GeluAttrs {
  GeluApproximation approximate = GeluApproximation::none;
  MEZZO_FIELDS(GeluAttrs, approximate)
};

Outputs gelu_forward(const ForwardArgs<GeluAttrs>& args) {
  const Tensor& x = args.in(0);
  require_floating("gelu", x);
  if (args.attrs.approximate == GeluApproximation::tanh) return map_one_real(GeluTanhFn{}, x, x.dtype());
  return map_one_real(GeluFn{}, x, x.dtype());
}
Gradients gelu_vjp(const VjpArgs<GeluAttrs>& args) {
  return {gelu_backward(args.grad(), args.in(0), args.attrs.approximate)};
}
std::vector<Sample<GeluAttrs>> gelu_samples() {
  return {{{op_samples::real({3, 5})}}, {{op_samples::real({3, 5})}, {GeluApproximation::tanh}}};
}
constexpr Op<GeluAttrs> gelu_op = elementwise_op<GeluAttrs>("gelu", Category::passthrough, gelu_samples,
                                                            gelu_forward, gelu_vjp, save_inputs(0));

Outputs gelu_backward_forward(const ForwardArgs<GeluAttrs>& args) {
  if (args.attrs.approximate == GeluApproximation::tanh)
    return map_backward("gelu_backward", GeluTanhBackwardFn{}, args.in(0), args.in(1));
  return map_backward("gelu_backward", GeluBackwardFn{}, args.in(0), args.in(1));
}
Outputs gelu_backward_reference(const ForwardArgs<GeluAttrs>& args) {
  const Tensor grad = widened(args.in(0)), x = widened(args.in(1)), square_x = square(x);
  Tensor slope;
  if (args.attrs.approximate == GeluApproximation::tanh) {
    const Tensor s = sigmoid(mul(mul(x, add(mul(square_x, kGeluCubic), 1)), 2 * kGeluScale));
    const Tensor of_exponent = mul(add(mul(square_x, 3 * kGeluCubic), 1), 2 * kGeluScale);
    slope = add(s, mul(mul(x, mul(s, sub(1, s))), of_exponent));
  } else {
    const Tensor cdf = mul(add(erf(mul(x, 0.70710678118654752440)), 1), 0.5);
    slope = add(cdf, mul(x, mul(exp(mul(square_x, -0.5)), kInverseSqrt2Pi)));
  }
  return to(mul(grad, slope), args.in(0).dtype());
}
std::vector<Sample<GeluAttrs>> gelu_backward_samples() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5})}},
          {{op_samples::real({3, 5}), op_samples::real({3, 5})}, {GeluApproximation::tanh}}};
}
constexpr Op<GeluAttrs> gelu_backward_op = pointwise_gradient_op<GeluAttrs>(
    "gelu_backward", gelu_backward_samples, gelu_backward_forward, gelu_backward_reference);

const Registered activation_registered{sigmoid_op, sigmoid_backward_op, tanh_op, tanh_backward_op,
                                       gelu_op,    gelu_backward_op};

}  // namespace

Tensor sigmoid(const Tensor& x) { return bind(sigmoid_op, {x}); }
Tensor tanh(const Tensor& x) { return bind(tanh_op, {x}); }
Tensor silu(const Tensor& x) { return bind(kActivationOp<Silu>, {x}); }
Tensor gelu(const Tensor& x, GeluApproximation approximate) { return bind(gelu_op, {x}, {approximate}); }
Tensor sigmoid_backward(const Tensor& grad, const Tensor& out) {
  return bind(sigmoid_backward_op, {grad, out});
}
Tensor tanh_backward(const Tensor& grad, const Tensor& out) { return bind(tanh_backward_op, {grad, out}); }
Tensor silu_backward(const Tensor& grad, const Tensor& x) {
  return bind(kActivationBackwardOp<Silu>, {grad, x});
}
Tensor gelu_backward(const Tensor& grad, const Tensor& x, GeluApproximation approximate) {
  return bind(gelu_backward_op, {grad, x}, {approximate});
}

}  // namespace mezzo
