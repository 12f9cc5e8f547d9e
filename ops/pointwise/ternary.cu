// addcmul, addcdiv, lerp and masked_fill.
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/ops/elementary.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

/// x + value * a * b.
struct AddcmulFn {
  Number value;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T a, T b) const {
    return AddFn{}(x, MulFn{}(MulFn{}(value.as<T>(), a), b));
  }
};
/// x + value * (a / b).
struct AddcdivFn {
  double value;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T a, T b) const {
    return x + T(value) * (a / b);
  }
};
/// a + weight (b - a), from whichever end is nearer: lerp(a, b, 1) is b.
struct LerpFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b, T weight) const {
    const bool from_a = weight < T(0.5);
    const T start = from_a ? a : b;
    const T share = from_a ? weight : weight - T(1);
    return start + share * (b - a);
  }
};
struct LerpNumberFn {
  double weight;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    return LerpFn{}(a, b, T(weight));
  }
};
/// `value` where the mask is set.
struct MaskedFillFn {
  Number value;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T mask) const {
    return mask != T(0) ? value.as<T>() : x;
  }
};

struct ValueAttrs {
  Scalar value = 1;
  MEZZO_FIELDS(ValueAttrs, value)
};
using ValueArgs = ForwardArgs<ValueAttrs>;

// --- addcmul, addcdiv

Outputs addcmul_forward(const ValueArgs& args) {
  const Tensor &x = args.in(0), &a = args.in(1), &b = args.in(2);
  const DType result = result_type({&x, &a, &b});
  if (result == DType::boolean) refuse_bool("addcmul", x, "convert it with to(DType::f32)");
  check_alpha("addcmul", args.attrs.value, result);
  return map<3>("addcmul", AddcmulFn{args.attrs.value}, {&x, &a, &b}, compute_dtype(result), result);
}
Gradients addcmul_vjp(const VjpArgs<ValueAttrs>& args) {
  const Tensor grad = args.grad();
  Gradients result{args.needs(0) ? grad : Tensor(), Tensor(), Tensor()};
  if (!args.needs(1) && !args.needs(2)) return result;
  const Tensor scaled = mul(widened(grad), args.attrs.value);
  if (args.needs(1)) result[1] = mul(scaled, args.in(2));
  if (args.needs(2)) result[2] = mul(scaled, args.in(1));
  return result;
}
std::vector<Sample<ValueAttrs>> addcmul_samples() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5}), op_samples::real({3, 5})}},
          {{op_samples::real({5}), op_samples::real({3, 1}), op_samples::real({2, 1, 5})}, {-0.5}}};
}
constexpr Op<ValueAttrs> addcmul_op = elementwise_op<ValueAttrs>(
    "addcmul", Category::promote, addcmul_samples, addcmul_forward, addcmul_vjp, save_factors(1, 2));

Outputs addcdiv_forward(const ValueArgs& args) {
  const Tensor &x = args.in(0), &a = args.in(1), &b = args.in(2);
  const DType result = result_type({&x, &a, &b});
  if (!is_floating(a.dtype()) && !is_floating(b.dtype())) {
    throw DTypeError("addcdiv", "a floating tensor to divide or to divide by",
                     to_string(a.dtype()) + " and " + to_string(b.dtype()),
                     "convert one with to(DType::f32), or add div(a, b, RoundingMode::trunc)");
  }
  return map<3>("addcdiv", AddcdivFn{args.attrs.value.real()}, {&x, &a, &b}, compute_dtype(result), result);
}
Gradients addcdiv_vjp(const VjpArgs<ValueAttrs>& args) {
  const Tensor grad = args.grad();
  Gradients result{args.needs(0) ? grad : Tensor(), Tensor(), Tensor()};
  if (!args.needs(1) && !args.needs(2)) return result;
  const Tensor b = widened(args.in(2));
  const Tensor of_a = div(mul(widened(grad), args.attrs.value), b);
  if (args.needs(1)) result[1] = of_a;
  if (args.needs(2)) result[2] = neg(mul(of_a, div(args.in(1), b)));
  return result;
}
std::vector<Sample<ValueAttrs>> addcdiv_samples() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5}), op_samples::real({3, 5}, 0.5, 2)}},
          {{op_samples::real({5}), op_samples::real({3, 1}), op_samples::real({2, 1, 5}, -2, -0.5)}, {-0.5}}};
}
constexpr Op<ValueAttrs> addcdiv_op = elementwise_op<ValueAttrs>(
    "addcdiv", Category::promote, addcdiv_samples, addcdiv_forward, addcdiv_vjp, save_inputs(1, 2));

// --- lerp

Outputs lerp_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1), &weight = args.in(2);
  for (const TensorRef& x : args.inputs) require_floating("lerp", x);
  const DType result = result_type({&a, &b, &weight});
  return map<3>("lerp", LerpFn{}, {&a, &b, &weight}, compute_dtype(result), result);
}
Gradients lerp_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor grad = widened(args.grad());
  Gradients result{Tensor(), Tensor(), Tensor()};
  if (args.needs(0)) result[0] = mul(grad, sub(1, widened(args.in(2))));
  if (args.needs(1)) result[1] = mul(grad, args.in(2));
  if (args.needs(2)) result[2] = mul(grad, sub(widened(args.in(1)), args.in(0)));
  return result;
}
std::vector<Sample<NoAttrs>> lerp_samples() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5}), op_samples::real({3, 5}, 0, 1)}},
          {{op_samples::real({4, 1, 3}), op_samples::real({2, 1}), op_samples::real({}, -1, 2)}}};
}
constexpr Op<NoAttrs> lerp_op =
    elementwise_op("lerp", Category::passthrough, lerp_samples, lerp_forward, lerp_vjp, save_inputs(0, 1, 2));

struct WeightAttrs {
  double weight = 0.5;
  MEZZO_FIELDS(WeightAttrs, weight)
};
Outputs lerp_scalar_forward(const ForwardArgs<WeightAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1);
  for (const TensorRef& x : args.inputs) require_floating("lerp", x);
  const DType result = result_type({&a, &b});
  return map<2>("lerp", LerpNumberFn{args.attrs.weight}, {&a, &b}, compute_dtype(result), result);
}
Gradients lerp_scalar_vjp(const VjpArgs<WeightAttrs>& args) {
  const Tensor grad = args.grad();
  const double weight = args.attrs.weight;
  return {args.needs(0) ? mul(grad, 1 - weight) : Tensor(), args.needs(1) ? mul(grad, weight) : Tensor()};
}
std::vector<Sample<WeightAttrs>> lerp_scalar_samples() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5})}, {0.3}},
          {{op_samples::real({4, 1, 3}), op_samples::real({2, 1})}, {0.8}}};
}
constexpr Op<WeightAttrs> lerp_scalar_op =
    elementwise_op<WeightAttrs>("lerp_scalar", Category::passthrough, lerp_scalar_samples,
                                lerp_scalar_forward, lerp_scalar_vjp, kSaveNothing);

// --- masked_fill

Outputs masked_fill_forward(const ValueArgs& args) {
  const Tensor &x = args.in(0), &mask = args.in(1);
  const Scalar& value = args.attrs.value;
  if (mask.dtype() != DType::boolean)
    throw DTypeError("masked_fill", "a bool mask", to_string(mask.dtype()), "pass ne(mask, 0)");
  if (value.kind() == DTypeKind::floating && !is_floating(x.dtype())) {
    throw DTypeError("masked_fill", "an integer value for a tensor of " + to_string(x.dtype()), "a real one",
                     "convert the tensor with to(DType::f32)");
  }
  return map<2>("masked_fill", MaskedFillFn{as_element(value, x.dtype())}, {&x, &mask},
                compute_dtype(x.dtype()), x.dtype());
}
Gradients masked_fill_vjp(const VjpArgs<ValueAttrs>& args) {
  return {masked_fill(args.grad(), args.in(1), 0), Tensor()};
}
std::vector<Sample<ValueAttrs>> masked_fill_samples() {
  return {{{op_samples::real({3, 5}), op_samples::mask({3, 5})}, {0}},
          {{op_samples::real({4, 1, 3}), op_samples::mask({2, 1})}, {3}}};
}
constexpr Op<ValueAttrs> masked_fill_op =
    elementwise_op<ValueAttrs>("masked_fill", Category::passthrough, masked_fill_samples, masked_fill_forward,
                               masked_fill_vjp, save_inputs(1));

const Registered ternary_registered{addcmul_op, addcdiv_op, lerp_op, lerp_scalar_op, masked_fill_op};

}  // namespace

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  return bind(addcmul_op, {x, a, b}, {value});
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  return bind(addcdiv_op, {x, a, b}, {value});
}
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) { return bind(lerp_op, {a, b, weight}); }
Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  return bind(lerp_scalar_op, {a, b}, {weight});
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  return bind(masked_fill_op, {x, mask}, {value});
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  require_defined("masked_fill", value);
  if (value.dim() != 0) {
    throw ShapeError("masked_fill", "a 0-dim value", to_string(value.shape()),
                     "use where for a value per element");
  }
  return where(mask, to(value, x.dtype()), x);
}

}  // namespace mezzo
