// Logarithms and exponentials, and the error function with its inverse.
#include "mezzo/kernels/math/elementary_math.h"
#include "mezzo/kernels/math/log_one_plus_exp.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

namespace math = kernels::math;

struct ExpFn : MathFn<math::exp, math::exp, true> {
  MEZZO_HD MEZZO_ALWAYS_INLINE float of_16_bits(float x) const { return math::exp<math::detail::Fused>(x); }
};
struct LogFn : MathFn<math::log, math::log, true> {};
struct Expm1Fn : MathFn<math::expm1, math::expm1, true> {};
struct Log1pFn : MathFn<math::log1p, math::log1p, true> {};
struct Log2Fn : MathFn<math::log2, math::log2, true> {};
struct Log10Fn : MathFn<math::log10, math::log10, true> {};
struct ErfFn : MathFn<math::erf, math::erf> {};
struct ErfinvFn : MathFn<math::erfinv, math::erfinv> {};

using Vjps = VjpArgs<NoAttrs>;
using Samples = std::vector<Sample<NoAttrs>>;

Samples above_minus_one_samples() {
  return {{{op_samples::real({3, 5}, -0.8, 2)}}, {{op_samples::real({}, -0.5, 0.5)}}};
}
Samples erfinv_samples() {
  return {{{op_samples::real({3, 5}, -0.8, 0.8)}}, {{op_samples::real({}, 0.9, 0.95)}}};
}

Gradients exp_vjp(const Vjps& args) { return {mul(args.grad(), args.out())}; }
constexpr Op<NoAttrs> exp_op =
    elementwise_op("exp", Category::fp32, any_samples, real_unary<ExpFn>, exp_vjp, save_outputs(0));

Gradients log_vjp(const Vjps& args) { return {div(args.grad(), args.in(0))}; }
constexpr Op<NoAttrs> log_op =
    elementwise_op("log", Category::fp32, positive_samples, real_unary<LogFn>, log_vjp, save_inputs(0));

Gradients expm1_vjp(const Vjps& args) { return {mul(args.grad(), add(widened(args.out()), 1))}; }
constexpr Op<NoAttrs> expm1_op =
    elementwise_op("expm1", Category::fp32, any_samples, real_unary<Expm1Fn>, expm1_vjp, save_outputs(0));

Gradients log1p_vjp(const Vjps& args) { return {div(args.grad(), add(widened(args.in(0)), 1))}; }
constexpr Op<NoAttrs> log1p_op = elementwise_op("log1p", Category::fp32, above_minus_one_samples,
                                                real_unary<Log1pFn>, log1p_vjp, save_inputs(0));

/// Gradient of log(x) / log(base).
Gradients log_gradient(const Vjps& args, double log_base) {
  return {div(args.grad(), mul(widened(args.in(0)), log_base))};
}
Gradients log2_vjp(const Vjps& args) { return log_gradient(args, 0.69314718055994530942); }
constexpr Op<NoAttrs> log2_op =
    elementwise_op("log2", Category::fp32, positive_samples, real_unary<Log2Fn>, log2_vjp, save_inputs(0));

Gradients log10_vjp(const Vjps& args) { return log_gradient(args, 2.30258509299404568402); }
constexpr Op<NoAttrs> log10_op =
    elementwise_op("log10", Category::fp32, positive_samples, real_unary<Log10Fn>, log10_vjp, save_inputs(0));

Outputs logaddexp_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1);
  if (!is_floating(b.dtype())) require_floating("logaddexp", a);
  return map_two_real("logaddexp", LogAddExpFn{}, a, b, result_type({&a, &b}));
}
Gradients logaddexp_vjp(const Vjps& args) {
  const Tensor a = widened(args.in(0)), b = widened(args.in(1));
  return {args.needs(0) ? mul(args.grad(), sigmoid(sub(a, b))) : Tensor(),
          args.needs(1) ? mul(args.grad(), sigmoid(sub(b, a))) : Tensor()};
}
Samples logaddexp_samples() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5})}},
          {{op_samples::real({4, 1, 3}, 80, 100), op_samples::real({2, 1}, 85, 95)}}};
}
constexpr Op<NoAttrs> logaddexp_op = elementwise_op("logaddexp", Category::passthrough, logaddexp_samples,
                                                    logaddexp_forward, logaddexp_vjp, save_inputs(0, 1));

constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

Gradients erf_vjp(const Vjps& args) {
  const Tensor slope = exp(neg(square(widened(args.in(0)))));
  return {mul(args.grad(), mul(slope, kTwoOverSqrtPi))};
}
constexpr Op<NoAttrs> erf_op =
    elementwise_op("erf", Category::passthrough, any_samples, real_unary<ErfFn>, erf_vjp, save_inputs(0));

Gradients erfinv_vjp(const Vjps& args) {
  const Tensor slope = exp(square(widened(args.out())));
  return {mul(args.grad(), mul(slope, 1 / kTwoOverSqrtPi))};
}
constexpr Op<NoAttrs> erfinv_op = elementwise_op("erfinv", Category::fp32, erfinv_samples,
                                                 real_unary<ErfinvFn>, erfinv_vjp, save_outputs(0));

const Registered exponential_registered{exp_op,   log_op,       expm1_op, log1p_op, log2_op,
                                        log10_op, logaddexp_op, erf_op,   erfinv_op};

}  // namespace

Tensor exp(const Tensor& x) { return bind(exp_op, {x}); }
Tensor log(const Tensor& x) { return bind(log_op, {x}); }
Tensor expm1(const Tensor& x) { return bind(expm1_op, {x}); }
Tensor log1p(const Tensor& x) { return bind(log1p_op, {x}); }
Tensor log2(const Tensor& x) { return bind(log2_op, {x}); }
Tensor log10(const Tensor& x) { return bind(log10_op, {x}); }
Tensor logaddexp(const Tensor& a, const Tensor& b) { return bind(logaddexp_op, {a, b}); }
Tensor erf(const Tensor& x) { return bind(erf_op, {x}); }
Tensor erfinv(const Tensor& x) { return bind(erfinv_op, {x}); }

}  // namespace mezzo
