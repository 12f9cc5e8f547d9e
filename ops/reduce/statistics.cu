// Variance, standard deviation, log-sum-exp and norms.
#include <algorithm>
#include <cmath>

#include "mezzo/ops/ops.h"
#include "mezzo/ops/reduce/common.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::real;
using op_samples::smooth;

// --- var, std

struct VarAttrs {
  Dims dim;
  bool unbiased = true;
  bool keepdim = false;
  std::optional<std::int64_t> correction = {};  ///< wins over `unbiased`
  MEZZO_FIELDS(VarAttrs, dim, unbiased, keepdim, correction)
  [[nodiscard]] std::int64_t taken_off() const { return correction.value_or(unbiased ? 1 : 0); }
};

Tensor deviation(std::string_view op, const Tensor& x, const VarAttrs& attrs, bool root) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;  // what f64 counts; no difference overflows
  require_floating(op, x);
  if (attrs.taken_off() < -kMost || attrs.taken_off() > kMost) {
    throw ValueError(op, "a correction in [-2^53, 2^53]", number_text(attrs.taken_off()),
                     "pass 1 for the unbiased estimate, 0 for the biased one");
  }
  const Reduced reduced(op, x.shape(), attrs.dim);
  Tensor out = reduced.make(x, attrs.keepdim, x.dtype());
  kernels::variance(x.device(), {attrs.taken_off(), root}, reduced.view(out), view_of(x), x.dtype());
  return out;
}

Outputs var_forward(const ForwardArgs<VarAttrs>& args) {
  return deviation("var", args.in(0), args.attrs, false);
}
Outputs std_forward(const ForwardArgs<VarAttrs>& args) {
  return deviation("std", args.in(0), args.attrs, true);
}

/// scale * (x - mean); for 16-bit x in f32, which the engine rounds once.
Tensor scaled_deviation(const Tensor& x, const Reduced& reduced, const Tensor& scale) {
  const std::optional<DType> dtype = is_16bit(x.dtype()) ? std::optional(DType::f32) : std::nullopt;
  return mul(sub(x, mean(x, reduced.dims, true, dtype)), scale);
}

/// 1 / (n - correction); infinite where that is 0, for a gradient of NaN.
double inverse_count(const Reduced& reduced, const VarAttrs& attrs) {
  return 1.0 / static_cast<double>(std::max<std::int64_t>(reduced.count - attrs.taken_off(), 0));
}

Gradients var_vjp(const VjpArgs<VarAttrs>& args) {
  const Reduced reduced("var", args.in_shape(0), args.attrs.dim);
  const Tensor gradient = widened(reduced.with_dims(args.grad()));
  return {scaled_deviation(args.in(0), reduced, mul(gradient, 2 * inverse_count(reduced, args.attrs)))};
}

/// numerator / denominator, and 0 where the denominator is 0; so are its derivatives there.
Tensor divide_or_zero(const Tensor& numerator, const Tensor& denominator) {
  const Tensor zero = eq(denominator, 0);
  return where(zero, 0, div(numerator, where(zero, 1, denominator)));
}

Gradients std_vjp(const VjpArgs<VarAttrs>& args) {
  const Reduced reduced("std", args.in_shape(0), args.attrs.dim);
  const Tensor gradient = widened(reduced.with_dims(args.grad()));
  const Tensor scale = divide_or_zero(gradient, widened(reduced.with_dims(args.out())));
  return {scaled_deviation(args.in(0), reduced, mul(scale, inverse_count(reduced, args.attrs)))};
}

std::vector<Sample<VarAttrs>> var_samples() {
  return {{{real({3, 5, 2})}, {}},
          {{real({3, 5, 2})}, {{-2, 0}, false, true}},
          {{real({7, 33})}, {{1}, true, false}},
          {{real({9, 3})}, {{0}, true, false}},
          {{real({5, 2})}, {{0}, true, false, 3}}};
}

constexpr Op<VarAttrs> var_op =
    plain_op<VarAttrs>("var", Category::passthrough, var_samples, var_forward, var_vjp, save_inputs(0));

constexpr Op<VarAttrs> std_op =
    plain_op<VarAttrs>("std", Category::passthrough, var_samples, std_forward, std_vjp, {1U, 1U});

// --- logsumexp

Outputs logsumexp_forward(const ForwardArgs<DimAttrs>& args) {
  const DType result = args.run_dtype.value_or(real_result(args.in(0).dtype()));
  const Tensor x = to(args.in(0), compute_dtype(result));
  const Reduced reduced("logsumexp", x.shape(), args.attrs.dim);
  const auto shaped = [&](const Tensor& kept) {
    return to(reshape(kept, reduced.after(args.attrs.keepdim)), result);
  };
  if (reduced.count == 0) return shaped(log(sum(x, reduced.dims, true)));
  const Tensor largest = amax(x, reduced.dims, true);
  const Tensor shift = where(eq(abs(largest), kInfinity), 0.0, largest);
  return shaped(log(sum(exp(x - shift), reduced.dims, true)) + shift);
}

Gradients logsumexp_vjp(const VjpArgs<DimAttrs>& args) {
  const Reduced reduced("logsumexp", args.in_shape(0), args.attrs.dim);
  const Tensor x = to(args.in(0), compute_dtype(args.out_dtype()));
  // A rounded 16-bit result would shift all exponents.
  const Tensor out = is_16bit(args.out_dtype()) ? logsumexp(x, reduced.dims, true) : args.out();
  return {exp(x - reduced.with_dims(out)) * reduced.with_dims(widened(args.grad()))};
}

std::vector<Sample<DimAttrs>> logsumexp_samples() {
  return {{{real({3, 5})}, {{1}, false}},
          {{real({2, 3, 4})}, {{0, -1}, true}},
          {{real({3})}, {}},
          {{real({2, 3}, 80, 100)}, {{0}, false}}};
}

constexpr Op<DimAttrs> logsumexp_op = plain_op<DimAttrs>("logsumexp", Category::fp32, logsumexp_samples,
                                                         logsumexp_forward, logsumexp_vjp, {1U, 1U});

// --- norm

struct NormAttrs {
  double p = 2;
  Dims dim;
  bool keepdim = false;
  std::optional<DType> dtype;
  MEZZO_FIELDS(NormAttrs, p, dim, keepdim, dtype)
};

template <class R>
void fill(const Tensor& out, const Reduced& reduced, const Tensor& x, R reducer) {
  kernels::reduce_real(x.device(), reducer, reduced.view(out), view_of(x), promote(x.dtype(), out.dtype()));
}

Outputs norm_forward(const ForwardArgs<NormAttrs>& args) {
  using namespace kernels;
  const Tensor& x = args.in(0);
  const double p = args.attrs.p;
  require_floating("norm", x);
  const DType result = args.attrs.dtype.value_or(args.run_dtype.value_or(x.dtype()));
  if (!is_floating(result))
    throw DTypeError("norm", "a floating dtype", to_string(result), "pass DType::f32");
  if (std::isnan(p)) throw ValueError("norm", "a number p", "NaN", "pass 2 for the Euclidean norm");
  const Reduced reduced("norm", x.shape(), args.attrs.dim);
  if (p < 0 || p == kInfinity) reduced.require_elements("norm");
  Tensor out = reduced.make(x, args.attrs.keepdim, result);
  if (p == 0) {
    fill(out, reduced, x, Sum<NonZero>{});
  } else if (p == 1) {
    fill(out, reduced, x, Sum<Magnitude>{});
  } else if (p == 2) {
    fill(out, reduced, x, Sum<WideSquare>{{}, root_of_sum(2)});
  } else if (p == kInfinity) {
    fill(out, reduced, x, Extremum<false, Magnitude>{});
  } else if (p == -kInfinity) {
    fill(out, reduced, x, Extremum<true, Magnitude>{});
  } else {
    fill(out, reduced, x, Sum<WidePower>{{p}, root_of_sum(p)});
  }
  return out;
}

/// d|x|_p / dx = sign(x) (|x| / norm)^(p - 1): the quotient first, since powers of |x| alone may overflow.
Tensor power_gradient(const Tensor& x, const Tensor& norm, const Tensor& gradient, double p) {
  const Tensor zero = eq(norm, 0);
  const Tensor ratio = div(abs(x), where(zero, 1, norm));
  // sign(x) brings the 0 where x is 0; a power of 1 there keeps its derivatives finite.
  const Tensor power = pow(where(eq(x, 0), 1, ratio), p - 1);
  return mul(mul(sign(x), power), where(zero, 0, gradient));
}

Gradients norm_vjp(const VjpArgs<NormAttrs>& args) {
  const Reduced reduced("norm", args.in_shape(0), args.attrs.dim);
  const Tensor x = widened(args.in(0)), norm = widened(reduced.with_dims(args.out()));
  const Tensor gradient = widened(reduced.with_dims(args.grad()));
  const double p = args.attrs.p;
  if (p == 0) return {zeros(args.in_shape(0), {.dtype = args.wanted(0), .device = args.in_device(0)})};
  if (p == 1) return {mul(sign(x), gradient)};
  if (p == 2) return {mul(x, divide_or_zero(gradient, norm))};
  if (std::isinf(p)) {
    // Where the norm is NaN, the NaNs share its gradient, and have no sign.
    const Tensor chosen = logical_or(eq(abs(x), norm), isnan(x));
    return {mul(sign(x), share_evenly(gradient, chosen, reduced))};
  }
  return {power_gradient(x, norm, gradient, p)};
}

std::vector<Sample<NormAttrs>> norm_samples() {
  return {{{real({3, 5, 2})}, {}},
          {{smooth({3, 5, 2})}, {1, {-2, 0}, true, {}}},
          {{smooth({7, 33})}, {3, {1}, false, {}}},
          {{smooth({5, 3})}, {0.5, {0}, false, {}}},
          {{smooth({5})}, {0, {}, false, {}}},
          {{real({4, 6}, 0.1)}, {kInfinity, {1}, false, {}}},
          {{real({4, 6}, 0.1)}, {-kInfinity, {0}, false, DType::f64}}};
}

constexpr Op<NormAttrs> norm_op =
    plain_op<NormAttrs>("norm", Category::fp32, norm_samples, norm_forward, norm_vjp, {1U, 1U});

const Registered statistics_registered{var_op, std_op, logsumexp_op, norm_op};

}  // namespace

Tensor var(const Tensor& x, const ReducedDims& dim, bool unbiased, bool keepdim) {
  return bind(var_op, {x}, VarAttrs{dim, unbiased, keepdim, {}});
}
Tensor var(const Tensor& x, const ReducedDims& dim, Correction correction, bool keepdim) {
  return bind(var_op, {x}, VarAttrs{dim, true, keepdim, correction.value});
}
Tensor std(const Tensor& x, const ReducedDims& dim, bool unbiased, bool keepdim) {
  return bind(std_op, {x}, VarAttrs{dim, unbiased, keepdim, {}});
}
Tensor std(const Tensor& x, const ReducedDims& dim, Correction correction, bool keepdim) {
  return bind(std_op, {x}, VarAttrs{dim, true, keepdim, correction.value});
}
VarMean var_mean(const Tensor& x, const ReducedDims& dim, Correction correction, bool keepdim) {
  return {var(x, dim, correction, keepdim), mean(x, dim, keepdim)};
}
StdMean std_mean(const Tensor& x, const ReducedDims& dim, Correction correction, bool keepdim) {
  return {std(x, dim, correction, keepdim), mean(x, dim, keepdim)};
}
Tensor logsumexp(const Tensor& x, const ReducedDims& dim, bool keepdim) {
  return bind(logsumexp_op, {x}, DimAttrs{dim, keepdim});
}
Tensor norm(const Tensor& x, double p, const ReducedDims& dim, bool keepdim, std::optional<DType> dtype) {
  return bind(norm_op, {x}, NormAttrs{p, dim, keepdim, dtype});
}

}  // namespace mezzo
