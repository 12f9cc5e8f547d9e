// Arithmetic between a tensor and a number. The number takes part in promotion by its kind only and is used
// in the compute type, so an f16 tensor times 0.1 is rounded once.
#include "mezzo/ops/pointwise.h"

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/kernels/pointwise/cpu_quotient.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

std::vector<Sample<NumberAttrs>> number_samples() {
  return {{{op_samples::real({3, 4})}, {2.5}}, {{op_samples::real({5})}, {-3}}};
}

/// f(x, s) or f(s, x), as `Bound` says, in the promoted dtype.
template <class Bound, class A = NumberAttrs>
Outputs map_number(const ForwardArgs<A>& args) {
  const DType result = result_with(args.in(0), args.attrs.s);
  return map_one(Bound{args.attrs.s}, args.in(0), compute_dtype(result), result);
}

// --- x + s, s - x

Gradients add_scalar_vjp(const VjpArgs<NumberAttrs>& args) { return {args.grad()}; }
constexpr Op<NumberAttrs> add_scalar_op =
    elementwise_op<NumberAttrs>("add_scalar", Category::passthrough, number_samples,
                                map_number<WithRight<AddFn>>, add_scalar_vjp, kSaveNothing);

Outputs rsub_scalar_forward(const ForwardArgs<NumberAttrs>& args) {
  refuse_bool("rsub_scalar", args.in(0), "use logical_not or to(DType::f32)");
  return map_number<WithLeft<SubFn>>(args);
}
Gradients rsub_scalar_vjp(const VjpArgs<NumberAttrs>& args) { return {neg(args.grad())}; }
constexpr Op<NumberAttrs> rsub_scalar_op = elementwise_op<NumberAttrs>(
    "rsub_scalar", Category::passthrough, number_samples, rsub_scalar_forward, rsub_scalar_vjp, kSaveNothing);

// --- x * s

Gradients mul_scalar_vjp(const VjpArgs<NumberAttrs>& args) { return {mul(args.grad(), args.attrs.s)}; }
constexpr Op<NumberAttrs> mul_scalar_op =
    elementwise_op<NumberAttrs>("mul_scalar", Category::passthrough, number_samples,
                                map_number<WithRight<MulFn>>, mul_scalar_vjp, kSaveNothing);

// --- x / s, s / x

struct DivScalarAttrs {
  Scalar s = 1;
  RoundingMode rounding_mode = RoundingMode::none;
  MEZZO_FIELDS(DivScalarAttrs, s, rounding_mode)
};

Outputs div_scalar_forward(const ForwardArgs<DivScalarAttrs>& args) {
  const Scalar& s = args.attrs.s;
  if (args.attrs.rounding_mode == RoundingMode::trunc) return map_number<WithRight<DivTruncFn>>(args);
  if (args.attrs.rounding_mode == RoundingMode::floor) return map_number<WithRight<DivFloorFn>>(args);
  return map_one_real(WithRight<DivFn>{s}, args.in(0), real_result(result_with(args.in(0), s)));
}
Gradients div_scalar_vjp(const VjpArgs<DivScalarAttrs>& args) {
  const Tensor grad = args.grad();
  if (args.attrs.rounding_mode != RoundingMode::none) return {zeros_like(grad)};
  return {div(grad, args.attrs.s)};
}
std::vector<Sample<DivScalarAttrs>> div_scalar_samples() {
  return {{{op_samples::real({3, 4})}, {2.5}},
          {{op_samples::real({5})}, {-3}},
          {{op_samples::constant({5})}, {0.75, RoundingMode::trunc}},
          {{op_samples::constant({5})}, {-0.75, RoundingMode::floor}}};
}
constexpr Op<DivScalarAttrs> div_scalar_op =
    elementwise_op<DivScalarAttrs>("div_scalar", Category::passthrough, div_scalar_samples,
                                   div_scalar_forward, div_scalar_vjp, kSaveNothing);

Outputs rdiv_scalar_forward(const ForwardArgs<NumberAttrs>& args) {
  const DType result = args.run_dtype.value_or(real_result(result_with(args.in(0), args.attrs.s)));
  return map_one_real(WithLeft<DivFn>{args.attrs.s}, args.in(0), result);
}
Gradients rdiv_scalar_vjp(const VjpArgs<NumberAttrs>& args) {
  // -grad s / x^2, without x^2, which overflows where the quotients do not.
  const Tensor x = args.in(0);
  return {mul(div(div(widened(args.grad()), x), x), negated(args.attrs.s))};
}
std::vector<Sample<NumberAttrs>> rdiv_scalar_samples() {
  return {{{op_samples::real({3, 4}, 0.5, 2)}, {2.0}}, {{op_samples::real({5}, -2, -0.5)}, {-1.5}}};
}
constexpr Op<NumberAttrs> rdiv_scalar_op = elementwise_op<NumberAttrs>(
    "rdiv_scalar", Category::fp32, rdiv_scalar_samples, rdiv_scalar_forward, rdiv_scalar_vjp, save_inputs(0));

const Registered scalar_registered{add_scalar_op, rsub_scalar_op, mul_scalar_op, div_scalar_op,
                                   rdiv_scalar_op};

}  // namespace

const Op<NumberAttrs>& add_scalar_descriptor() { return add_scalar_op; }
const Op<NumberAttrs>& mul_scalar_descriptor() { return mul_scalar_op; }

Tensor add(const Tensor& x, Scalar s) { return bind(add_scalar_op, {x}, {s}); }
Tensor sub(const Tensor& x, Scalar s) {
  if (s.kind() == DTypeKind::boolean) ops::refuse_bool("sub", x, "use logical_not, ne or to(DType::f32)");
  return bind(add_scalar_op, {x}, {ops::negated(s)});
}
Tensor sub(Scalar s, const Tensor& x) { return bind(rsub_scalar_op, {x}, {s}); }
Tensor mul(const Tensor& x, Scalar s) { return bind(mul_scalar_op, {x}, {s}); }
Tensor div(const Tensor& x, Scalar s, RoundingMode rounding_mode) {
  return bind(div_scalar_op, {x}, {s, rounding_mode});
}
Tensor div(Scalar s, const Tensor& x) { return bind(rdiv_scalar_op, {x}, {s}); }

}  // namespace mezzo
