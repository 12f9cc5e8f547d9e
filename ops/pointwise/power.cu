// Powers: of two tensors, and of a tensor and a number on either side.
#include "mezzo/ops/pointwise.h"

#include <cmath>

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- a ^ b

Outputs pow_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1);
  const DType result = args.run_dtype.value_or(result_type({&a, &b}));
  return map_wrapped<2>("pow", PowFn{}, {&a, &b}, result);
}
Gradients pow_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor grad = args.grad(), a = widened(args.in(0)), b = widened(args.in(1));
  Gradients result{Tensor(), Tensor()};
  // Both wheres inside keep infinities out of the branch that is not taken: 0 times them would be NaN in the
  // second derivative.
  if (args.needs(0)) {
    const Tensor constant = eq(b, 0);
    const Tensor power = pow(a, where(constant, 1, sub(b, 1)));
    result[0] = where(constant, 0, mul(widened(grad), mul(b, power)));
  }
  if (args.needs(1)) {
    const Tensor flat = logical_and(eq(a, 0), ge(b, 0));
    const Tensor out = is_16bit(grad.dtype()) ? pow(a, b) : args.out();  // rounded to 16 bits it may be 0
    result[1] = mul(widened(grad), where(flat, 0, mul(out, log(where(flat, 1, a)))));
  }
  return result;
}
std::vector<Sample<NoAttrs>> pow_samples() {
  return {{{op_samples::real({3, 5}, 0.3, 2), op_samples::real({3, 5})}},
          {{op_samples::real({4, 1, 3}, 0.3, 2), op_samples::real({2, 1})}}};
}
constexpr Op<NoAttrs> pow_op = elementwise_op("pow", Category::fp32, pow_samples, pow_forward, pow_vjp,
                                              {.inputs = 0b11, .outputs = 0b1});

// --- x ^ p

struct ExponentAttrs {
  Scalar p = 1;
  MEZZO_FIELDS(ExponentAttrs, p)
};

Outputs pow_scalar_exp_forward(const ForwardArgs<ExponentAttrs>& args) {
  const Tensor& x = args.in(0);
  const Scalar& p = args.attrs.p;
  const DType result = args.run_dtype.value_or(result_with(x, p));
  if (!is_floating(result) && p.integer() < 0) {
    throw ValueError("pow", "an exponent of at least 0 for an integer base", std::to_string(p.integer()),
                     "convert the base with to(DType::f32)");
  }
  const DType compute = compute_dtype(result);
  if (p.real() == 1.0) return map_one(IdentityFn{}, x, compute, result);
  if (p.real() == 2.0) return map_one(SquareFn{}, x, compute, result);
  if (p.real() == 3.0) return map_one(CubeFn{}, x, compute, result);
  if (p.real() == -1.0) return map_one_real(ReciprocalFn{}, x, result);
  // PyTorch takes roots, which differ from powers at -infinity, where they are NaN, and at -0.
  if (p.real() == 0.5) return map_one_real(SqrtFn{}, x, result);
  if (p.real() == -0.5) return map_one_real(RsqrtFn{}, x, result);
  return map_one(WithRight<PowFn>{p}, x, compute, result);
}
Gradients pow_scalar_exp_vjp(const VjpArgs<ExponentAttrs>& args) {
  const Tensor grad = args.grad();
  const Scalar& p = args.attrs.p;
  if (p.real() == 0.0) return {zeros_like(grad)};
  const Tensor x = widened(args.in(0));
  if (p.real() == 2.0) return {mul(grad, mul(x, 2))};
  return {mul(grad, mul(pow(x, p.real() - 1.0), p))};
}
std::vector<Sample<ExponentAttrs>> pow_scalar_exp_samples() {
  return {{{op_samples::real({3, 4})}, {2}},
          {{op_samples::real({5})}, {3}},
          {{op_samples::real({2, 3}, 0.3, 2)}, {-1.5}},
          {{op_samples::real({4}, 0.3, 2)}, {-1}},
          {{op_samples::real({4}, 0.3, 2)}, {0.5}},
          {{op_samples::real({4})}, {1}},
          {{op_samples::real({4})}, {0}}};
}
constexpr Op<ExponentAttrs> pow_scalar_exp_op =
    elementwise_op<ExponentAttrs>("pow_scalar_exp", Category::fp32, pow_scalar_exp_samples,
                                  pow_scalar_exp_forward, pow_scalar_exp_vjp, save_inputs(0));

// --- s ^ x

Outputs pow_scalar_base_forward(const ForwardArgs<NumberAttrs>& args) {
  const DType result = args.run_dtype.value_or(result_with(args.in(0), args.attrs.s));
  return map_one(WithLeft<PowFn>{args.attrs.s}, args.in(0), compute_dtype(result), result);
}
Gradients pow_scalar_base_vjp(const VjpArgs<NumberAttrs>& args) {
  const Tensor grad = widened(args.grad()), out = args.out();
  const double base = args.attrs.s.real();
  if (base != 0.0) return {mul(mul(grad, out), std::log(base))};
  // 0^x is 0 or 1 where x >= 0: flat there. Below it is infinite and falls without bound.
  return {mul(grad, where(le(out, 1), 0, neg(out)))};
}
std::vector<Sample<NumberAttrs>> pow_scalar_base_samples() {
  return {
      {{op_samples::real({3, 4})}, {2.0}}, {{op_samples::real({5})}, {0.5}}, {{op_samples::real({2})}, {1}}};
}
constexpr Op<NumberAttrs> pow_scalar_base_op =
    elementwise_op<NumberAttrs>("pow_scalar_base", Category::fp32, pow_scalar_base_samples,
                                pow_scalar_base_forward, pow_scalar_base_vjp, save_outputs(0));

const Registered power_registered{pow_op, pow_scalar_exp_op, pow_scalar_base_op};

}  // namespace

Tensor pow(const Tensor& a, const Tensor& b) { return bind(pow_op, {a, b}); }
Tensor pow(const Tensor& x, Scalar p) { return bind(pow_scalar_exp_op, {x}, {p}); }
Tensor pow(Scalar s, const Tensor& x) { return bind(pow_scalar_base_op, {x}, {s}); }

}  // namespace mezzo
