// Arithmetic between two tensors, and the operators of C++.
#include "mezzo/ops/pointwise.h"

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/kernels/pointwise/cpu_quotient.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace ops {

void check_alpha(std::string_view op, const Scalar& alpha, DType result) {
  const bool fits = alpha.kind() == DTypeKind::boolean
                        ? result == DType::boolean
                        : is_floating(result) || alpha.kind() == DTypeKind::integer;
  if (fits) return;
  const bool boolean = alpha.kind() == DTypeKind::boolean;
  throw DTypeError(op,
                   boolean ? "a number as alpha" : "an integer alpha for a result of " + to_string(result),
                   boolean ? "a bool alpha for a result of " + to_string(result) : "a real one",
                   boolean ? "pass 0 or 1" : "convert a tensor with to(DType::f32) first");
}

void refuse_bool(std::string_view op, const Tensor& x, std::string_view fix) {
  if (x.dtype() == DType::boolean) throw DTypeError(op, "numbers", "a bool tensor", fix);
}

Scalar rounded_to(const Scalar& s, DType dtype) {
  if (s.kind() != DTypeKind::floating || !is_floating(dtype)) return s;
  return dispatch(dtype, [&]<class T>(TypeTag<T>) -> Scalar {
    if constexpr (kIsNarrowFloat<T>)
      return static_cast<double>(static_cast<float>(T(s.real())));
    else
      return static_cast<double>(static_cast<T>(s.real()));
  });
}

}  // namespace ops

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- add, sub

constexpr std::string_view kNoBoolSub = "use logical_not, ne or to(DType::f32)";

/// a + alpha * b.
Tensor add_scaled(std::string_view op, const Tensor& a, const Tensor& b, Scalar alpha) {
  const DType result = result_type({&a, &b});
  check_alpha(op, alpha, result);
  // In bool arithmetic every number but 0 is true.
  if (result == DType::boolean) alpha = Scalar(alpha.integer() != 0 ? 1 : 0);
  const DType compute = compute_dtype(result);
  if (alpha.real() == 1.0) return map<2>(op, AddFn{}, {&a, &b}, compute, result);
  if (alpha.real() == -1.0) return map<2>(op, SubFn{}, {&a, &b}, compute, result);
  return map<2>(op, AddScaledFn{alpha}, {&a, &b}, compute, result);
}
std::vector<Sample<AddAttrs>> add_samples() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5})}},
          {{op_samples::real({4, 1, 3}), op_samples::real({2, 1})}, {.alpha = -0.5}}};
}

Outputs add_forward(const ForwardArgs<AddAttrs>& args) {
  return add_scaled("add", args.in(0), args.in(1), args.attrs.alpha);
}
Gradients add_vjp(const VjpArgs<AddAttrs>& args) {
  const Tensor grad = args.grad();
  const bool one = args.attrs.alpha.real() == 1.0;
  return {args.needs(0) ? grad : Tensor(), !args.needs(1) ? Tensor()
                                           : one          ? grad
                                                          : mul(grad, args.attrs.alpha)};
}
constexpr Op<AddAttrs> add_op =
    elementwise_op<AddAttrs>("add", Category::passthrough, add_samples, add_forward, add_vjp, kSaveNothing);

Outputs sub_forward(const ForwardArgs<AddAttrs>& args) {
  refuse_bool("sub", args.in(0), kNoBoolSub);
  refuse_bool("sub", args.in(1), kNoBoolSub);
  check_alpha("sub", args.attrs.alpha, result_type({&args.in(0), &args.in(1)}));
  return add_scaled("sub", args.in(0), args.in(1), negated(args.attrs.alpha));
}
Gradients sub_vjp(const VjpArgs<AddAttrs>& args) {
  const Tensor grad = args.grad();
  return {args.needs(0) ? grad : Tensor(), args.needs(1) ? mul(grad, negated(args.attrs.alpha)) : Tensor()};
}
constexpr Op<AddAttrs> sub_op =
    elementwise_op<AddAttrs>("sub", Category::passthrough, add_samples, sub_forward, sub_vjp, kSaveNothing);

// --- mul

std::vector<Sample<NoAttrs>> two_samples() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5})}},
          {{op_samples::real({4, 1, 3}), op_samples::real({2, 1})}}};
}

Outputs mul_forward(const ForwardArgs<NoAttrs>& args) {
  const DType result = result_type({&args.in(0), &args.in(1)});
  return map<2>("mul", MulFn{}, {&args.in(0), &args.in(1)}, compute_dtype(result), result);
}
Gradients mul_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor grad = args.grad();
  return {args.needs(0) ? mul(grad, args.in(1)) : Tensor(), args.needs(1) ? mul(grad, args.in(0)) : Tensor()};
}
constexpr Op<NoAttrs> mul_op =
    elementwise_op("mul", Category::passthrough, two_samples, mul_forward, mul_vjp, save_factors(0, 1));

// --- div

struct DivAttrs {
  RoundingMode rounding_mode = RoundingMode::none;
  MEZZO_FIELDS(DivAttrs, rounding_mode)
};

Outputs div_forward(const ForwardArgs<DivAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1);
  const DType common = result_type({&a, &b});
  switch (args.attrs.rounding_mode) {
    case RoundingMode::trunc:
      return map_wrapped<2>("div", DivTruncFn{}, {&a, &b}, common);
    case RoundingMode::floor:
      return map_wrapped<2>("div", DivFloorFn{}, {&a, &b}, common);
    case RoundingMode::none:
      break;
  }
  return map_two_real("div", DivFn{}, a, b, real_result(common));
}
Gradients div_vjp(const VjpArgs<DivAttrs>& args) {
  const Tensor grad = args.grad();
  if (args.attrs.rounding_mode != RoundingMode::none) {
    const Tensor zero = zeros_like(grad);
    return {args.needs(0) ? zero : Tensor(), args.needs(1) ? zero : Tensor()};
  }
  const Tensor b = args.in(1);
  if (!args.needs(1)) return {div(grad, b), Tensor()};
  const Tensor of_a = div(widened(grad), b);
  return {args.needs(0) ? of_a : Tensor(), neg(mul(of_a, div(widened(args.in(0)), b)))};
}
std::vector<Sample<DivAttrs>> div_samples() {
  // Rounded quotients jump: no finite differences there.
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5}, 0.5, 2)}},
          {{op_samples::real({4, 1, 3}), op_samples::real({2, 1}, -2, -0.5)}},
          {{op_samples::constant({3, 5}), op_samples::constant({3, 5}, 0.5, 2)}, {RoundingMode::trunc}},
          {{op_samples::constant({3, 5}), op_samples::constant({5}, -2, -0.5)}, {RoundingMode::floor}}};
}
constexpr Op<DivAttrs> div_op =
    elementwise_op<DivAttrs>("div", Category::passthrough, div_samples, div_forward, div_vjp,
                             Saves{tensor_set(0, 1), 0, tensor_set(0)});

const Registered binary_registered{add_op, sub_op, mul_op, div_op};

}  // namespace

const Op<AddAttrs>& add_descriptor() { return add_op; }
const Op<NoAttrs>& mul_descriptor() { return mul_op; }

Tensor add(const Tensor& a, const Tensor& b, Scalar alpha) { return bind(add_op, {a, b}, {alpha}); }
Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha) { return bind(sub_op, {a, b}, {alpha}); }
Tensor mul(const Tensor& a, const Tensor& b) { return bind(mul_op, {a, b}); }
Tensor div(const Tensor& a, const Tensor& b, RoundingMode rounding_mode) {
  return bind(div_op, {a, b}, {rounding_mode});
}

Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor operator+(const Tensor& x, Scalar s) { return add(x, s); }
Tensor operator+(Scalar s, const Tensor& x) { return add(x, s); }
Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor operator-(const Tensor& x, Scalar s) { return sub(x, s); }
Tensor operator-(Scalar s, const Tensor& x) { return sub(s, x); }
Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor operator*(const Tensor& x, Scalar s) { return mul(x, s); }
Tensor operator*(Scalar s, const Tensor& x) { return mul(x, s); }
Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor operator/(const Tensor& x, Scalar s) { return div(x, s); }
Tensor operator/(Scalar s, const Tensor& x) { return div(s, x); }
Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace mezzo
