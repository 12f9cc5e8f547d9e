// Circular and hyperbolic functions and their inverses.
#include "mezzo/kernels/math/elementary_math.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/elementary.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

namespace math = kernels::math;

struct SinFn : MathFn<math::sin, math::sin> {
  using Near = MathFn<math::sin<math::Argument::near>, math::sin>;
};
struct CosFn : MathFn<math::cos, math::cos> {
  using Near = MathFn<math::cos<math::Argument::near>, math::cos>;
};
struct TanFn : MathFn<math::tan, math::tan> {
  using Near = MathFn<math::tan<math::Argument::near>, math::tan>;
};
struct AsinFn : MathFn<math::asin, math::asin, true> {};
struct AcosFn : MathFn<math::acos, math::acos, true> {};
struct AtanFn : MathFn<math::atan, math::atan, true> {};
struct SinhFn : MathFn<math::sinh, math::sinh, true> {};
struct CoshFn : MathFn<math::cosh, math::cosh, true> {};
struct Atan2Fn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T y, T x) const {
    return math::atan2(y, x);
  }
};

using Vjps = VjpArgs<NoAttrs>;
using Samples = std::vector<Sample<NoAttrs>>;

Samples quarter_samples() {
  return {{{op_samples::real({3, 5}, -1.2, 1.2)}}, {{op_samples::real({}, 2, 4)}}};
}
Samples cosine_samples() {
  return {{{op_samples::real({3, 5}, -0.8, 0.8)}}, {{op_samples::real({}, -0.8, 0.8)}}};
}

Gradients sin_vjp(const Vjps& args) { return {mul(args.grad(), cos(widened(args.in(0))))}; }
constexpr Op<NoAttrs> sin_op =
    elementwise_op("sin", Category::passthrough, any_samples, real_unary<SinFn>, sin_vjp, save_inputs(0));

Gradients cos_vjp(const Vjps& args) { return {neg(mul(args.grad(), sin(widened(args.in(0)))))}; }
constexpr Op<NoAttrs> cos_op =
    elementwise_op("cos", Category::passthrough, any_samples, real_unary<CosFn>, cos_vjp, save_inputs(0));

Gradients tan_vjp(const Vjps& args) { return {mul(args.grad(), add(square(widened(args.out())), 1))}; }
constexpr Op<NoAttrs> tan_op =
    elementwise_op("tan", Category::fp32, quarter_samples, real_unary<TanFn>, tan_vjp, save_outputs(0));

/// 1 / sqrt(1 - x^2), with the difference as a product of two: nothing cancels near 1.
Tensor asin_slope(const Tensor& input) {
  const Tensor x = widened(input);
  return rsqrt(mul(sub(1, x), add(x, 1)));
}
Gradients asin_vjp(const Vjps& args) { return {mul(args.grad(), asin_slope(args.in(0)))}; }
constexpr Op<NoAttrs> asin_op =
    elementwise_op("asin", Category::fp32, cosine_samples, real_unary<AsinFn>, asin_vjp, save_inputs(0));

Gradients acos_vjp(const Vjps& args) { return {neg(mul(args.grad(), asin_slope(args.in(0))))}; }
constexpr Op<NoAttrs> acos_op =
    elementwise_op("acos", Category::fp32, cosine_samples, real_unary<AcosFn>, acos_vjp, save_inputs(0));

Gradients atan_vjp(const Vjps& args) { return {div(args.grad(), add(square(widened(args.in(0))), 1))}; }
constexpr Op<NoAttrs> atan_op =
    elementwise_op("atan", Category::passthrough, any_samples, real_unary<AtanFn>, atan_vjp, save_inputs(0));

Gradients sinh_vjp(const Vjps& args) { return {mul(args.grad(), cosh(widened(args.in(0))))}; }
constexpr Op<NoAttrs> sinh_op =
    elementwise_op("sinh", Category::fp32, any_samples, real_unary<SinhFn>, sinh_vjp, save_inputs(0));

Gradients cosh_vjp(const Vjps& args) { return {mul(args.grad(), sinh(widened(args.in(0))))}; }
constexpr Op<NoAttrs> cosh_op =
    elementwise_op("cosh", Category::fp32, any_samples, real_unary<CoshFn>, cosh_vjp, save_inputs(0));

Outputs atan2_forward(const ForwardArgs<NoAttrs>& args) {
  const DType result = real_result(result_type({&args.in(0), &args.in(1)}));
  return map_two_real("atan2", Atan2Fn{}, args.in(0), args.in(1), result);
}
Gradients atan2_vjp(const Vjps& args) {
  const Tensor y = widened(args.in(0)), x = widened(args.in(1));
  const Tensor share = div(args.grad(), add(square(y), square(x)));
  return {args.needs(0) ? mul(share, x) : Tensor(), args.needs(1) ? neg(mul(share, y)) : Tensor()};
}
Samples atan2_samples() {
  return {{{op_samples::real({3, 5}, 0.3, 2), op_samples::real({3, 5})}},
          {{op_samples::real({4, 1, 3}, -2, -0.3), op_samples::real({2, 1})}}};
}
constexpr Op<NoAttrs> atan2_op =
    elementwise_op("atan2", Category::promote, atan2_samples, atan2_forward, atan2_vjp, save_inputs(0, 1));

const Registered trigonometry_registered{sin_op,  cos_op,  tan_op,  asin_op, acos_op,
                                         atan_op, sinh_op, cosh_op, atan2_op};

}  // namespace

Tensor sin(const Tensor& x) { return bind(sin_op, {x}); }
Tensor cos(const Tensor& x) { return bind(cos_op, {x}); }
Tensor tan(const Tensor& x) { return bind(tan_op, {x}); }
Tensor asin(const Tensor& x) { return bind(asin_op, {x}); }
Tensor acos(const Tensor& x) { return bind(acos_op, {x}); }
Tensor atan(const Tensor& x) { return bind(atan_op, {x}); }
Tensor sinh(const Tensor& x) { return bind(sinh_op, {x}); }
Tensor cosh(const Tensor& x) { return bind(cosh_op, {x}); }
Tensor atan2(const Tensor& a, const Tensor& b) { return bind(atan2_op, {a, b}); }

}  // namespace mezzo
