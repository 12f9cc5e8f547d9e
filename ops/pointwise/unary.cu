// Functions of one number.
#include "mezzo/ops/pointwise.h"

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

using Args = ForwardArgs<NoAttrs>;
using Vjps = VjpArgs<NoAttrs>;

std::vector<Sample<NoAttrs>> nonzero_samples() {
  return {{{op_samples::real({3, 5}, 0.4, 2)}}, {{op_samples::real({4}, -2, -0.4)}}};
}

Outputs neg_forward(const Args& args) {
  refuse_bool("neg", args.in(0), "use logical_not or to(DType::f32)");
  return unary<NegFn>(args);
}
Gradients neg_vjp(const Vjps& args) { return {neg(args.grad())}; }
constexpr Op<NoAttrs> neg_op =
    elementwise_op("neg", Category::passthrough, any_samples, neg_forward, neg_vjp, kSaveNothing);

Gradients abs_vjp(const Vjps& args) { return {mul(args.grad(), sign(args.in(0)))}; }
constexpr Op<NoAttrs> abs_op =
    elementwise_op("abs", Category::passthrough, kink_samples, unary<AbsFn>, abs_vjp, save_inputs(0));

Gradients sign_vjp(const Vjps& args) { return {zeros_like(args.grad())}; }
constexpr Op<NoAttrs> sign_op =
    elementwise_op("sign", Category::passthrough, kink_samples, unary<SignFn>, sign_vjp, kSaveNothing);

Outputs square_forward(const Args& args) {
  const DType result = result_with(args.in(0), 2);
  return map_one(SquareFn{}, args.in(0), compute_dtype(result), result);
}
Gradients square_vjp(const Vjps& args) { return {mul(args.grad(), mul(widened(args.in(0)), 2))}; }
constexpr Op<NoAttrs> square_op =
    elementwise_op("square", Category::passthrough, any_samples, square_forward, square_vjp, save_inputs(0));

Gradients sqrt_vjp(const Vjps& args) { return {div(mul(widened(args.grad()), 0.5), args.out())}; }
constexpr Op<NoAttrs> sqrt_op = elementwise_op("sqrt", Category::passthrough, positive_samples,
                                               real_unary<SqrtFn>, sqrt_vjp, save_outputs(0));

Gradients rsqrt_vjp(const Vjps& args) {
  const Tensor out = args.out();
  return {mul(mul(mul(mul(widened(args.grad()), -0.5), out), out), out)};
}
constexpr Op<NoAttrs> rsqrt_op = elementwise_op("rsqrt", Category::fp32, positive_samples,
                                                real_unary<RsqrtFn>, rsqrt_vjp, save_outputs(0));

Gradients reciprocal_vjp(const Vjps& args) {
  const Tensor out = args.out();
  return {neg(mul(mul(widened(args.grad()), out), out))};
}
constexpr Op<NoAttrs> reciprocal_op = elementwise_op(
    "reciprocal", Category::fp32, nonzero_samples, real_unary<ReciprocalFn>, reciprocal_vjp, save_outputs(0));

const Registered unary_registered{neg_op, abs_op, sign_op, square_op, sqrt_op, rsqrt_op, reciprocal_op};

}  // namespace

Tensor neg(const Tensor& x) { return bind(neg_op, {x}); }
Tensor abs(const Tensor& x) { return bind(abs_op, {x}); }
Tensor sign(const Tensor& x) { return bind(sign_op, {x}); }
Tensor square(const Tensor& x) { return bind(square_op, {x}); }
Tensor sqrt(const Tensor& x) { return bind(sqrt_op, {x}); }
Tensor rsqrt(const Tensor& x) { return bind(rsqrt_op, {x}); }
Tensor reciprocal(const Tensor& x) { return bind(reciprocal_op, {x}); }

}  // namespace mezzo
