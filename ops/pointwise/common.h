// Shared by the pointwise families: attributes that several of them take, checks, and the descriptors that
// in-place ops record.
#pragma once

#include "mezzo/autograd/vjp_args.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo {

struct AddAttrs {
  Scalar alpha = 1;
  MEZZO_FIELDS(AddAttrs, alpha)
};

/// For ops between a tensor and a number.
struct NumberAttrs {
  Scalar s = 1;
  MEZZO_FIELDS(NumberAttrs, s)
};

[[nodiscard]] const Op<AddAttrs>& add_descriptor();
[[nodiscard]] const Op<NoAttrs>& mul_descriptor();
[[nodiscard]] const Op<NumberAttrs>& add_scalar_descriptor();
[[nodiscard]] const Op<NumberAttrs>& mul_scalar_descriptor();

namespace ops {

/// The functor of a function of kernels/math, given by its forms for float and for double.
template <float (*kOfFloat)(float), double (*kOfDouble)(double), bool kFuses = false>
struct MathFn {
  static constexpr bool kFuses16Bit = kFuses;
  MEZZO_HD MEZZO_ALWAYS_INLINE float operator()(float x) const { return kOfFloat(x); }
  MEZZO_HD MEZZO_ALWAYS_INLINE double operator()(double x) const { return kOfDouble(x); }
};

/// For ops of one tensor that are smooth everywhere.
[[nodiscard]] inline std::vector<Sample<NoAttrs>> any_samples() {
  return {{{op_samples::real({3, 5})}}, {{op_samples::real({})}}};
}

/// For ops of one tensor that have no derivative at 0.
[[nodiscard]] inline std::vector<Sample<NoAttrs>> kink_samples() {
  return {{{op_samples::smooth({3, 5})}}, {{op_samples::smooth({4})}}};
}
/// For ops of one tensor that take positive numbers.
[[nodiscard]] inline std::vector<Sample<NoAttrs>> positive_samples() {
  return {{{op_samples::real({3, 5}, 0.2, 3)}}, {{op_samples::real({}, 0.2, 3)}}};
}

/// -s; a bool becomes an integer.
[[nodiscard]] inline Scalar negated(const Scalar& s) {
  if (s.kind() == DTypeKind::floating) return -s.real();
  return kernels::scalar::NegFn{}(s.integer());
}

/// dtype of an op between a tensor and a number.
[[nodiscard]] inline DType result_with(const Tensor& x, const Scalar& s) {
  return ResultType().add(x).add(s).get();
}

/// Throws DTypeError when alpha is of a higher kind than the result, or a bool for a result that is none.
void check_alpha(std::string_view op, const Scalar& alpha, DType result);

/// Throws DTypeError for bool tensors, on which `op` makes no sense.
void refuse_bool(std::string_view op, const Tensor& x, std::string_view fix);

/// The number as it would be in a tensor of `dtype`, so that comparing it with such a tensor means the same
/// as comparing two tensors. Integers are left alone.
[[nodiscard]] Scalar rounded_to(const Scalar& s, DType dtype);
/// The number as a 16-bit element holds it, rounded once whatever its kind; for other dtypes unchanged.
[[nodiscard]] inline Scalar as_element(const Scalar& s, DType dtype) {
  return is_16bit(dtype) ? rounded_to(s.real(), dtype) : s;
}

/// Elementwise f(x) into a new tensor of dtype `result`, in the compute type of `compute`.
template <class F>
[[nodiscard]] Tensor map_one(F f, const Tensor& x, DType compute, DType result) {
  Tensor out = empty_like(x, result);
  kernels::pointwise(out.device(), f, view_of(out), std::array{view_of(x)}, compute);
  return out;
}
template <class F>
[[nodiscard]] Tensor map_one_real(F f, const Tensor& x, DType result) {
  Tensor out = empty_like(x, result);
  kernels::pointwise_real(out.device(), f, view_of(out), std::array{view_of(x)}, compute_dtype(result));
  return out;
}
/// `map` for functions that order or divide integers: a tensor without dims does not widen the result, and
/// its number wraps into the result's dtype before, as in PyTorch. (Sums and products wrap alike afterwards.)
template <std::size_t N, class F>
[[nodiscard]] Tensor map_wrapped(std::string_view op, F f, std::array<const Tensor*, N> inputs,
                                 DType result) {
  std::array<Tensor, N> wrapped;
  for (std::size_t i = 0; i < N && info(result).kind == DTypeKind::integer; ++i) {
    if (promote(inputs[i]->dtype(), result) == result) continue;
    wrapped[i] = to(*inputs[i], result);
    inputs[i] = &wrapped[i];
  }
  return map<N>(op, f, inputs, compute_dtype(result), result);
}
/// map_one_real for two operands broadcast together.
template <class F>
[[nodiscard]] Tensor map_two_real(std::string_view op, F f, const Tensor& a, const Tensor& b, DType result) {
  return map<2, true>(op, f, {&a, &b}, compute_dtype(result), result);
}

/// Zeros like a gradient that cannot depend on input i: the op is piecewise constant in it, or linear.
[[nodiscard]] inline Tensor zeros_for(const VjpContext& args, std::size_t i) {
  if (!args.needs(i)) return {};
  const Tensor grad = args.grad();
  return zeros(args.in_shape(i), {.dtype = args.in_dtype(i),
                                  .device = args.in_device(i),
                                  .memory_format = common_format<1>(args.in_shape(i), {&grad})});
}

/// The descriptor of an elementwise op (OpInfo). One of category fp32 widens 16-bit inputs itself.
template <class A = NoAttrs>
[[nodiscard]] constexpr Op<A> elementwise_op(std::string_view name, Category category,
                                             typename Op<A>::SampleList samples,
                                             typename Op<A>::Forward forward,
                                             std::type_identity_t<Vjp<A>> vjp, Saves saves,
                                             std::uint32_t optional_inputs = 0) {
  Op<A> op = plain_op<A>(name, category, samples, forward, vjp, saves, optional_inputs);
  op.info.elementwise = true;
  return op;
}

}  // namespace ops
}  // namespace mezzo
