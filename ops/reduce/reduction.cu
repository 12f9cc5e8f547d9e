// Sums, means, traces and bool reductions.
#include "mezzo/ops/reduction.h"

#include <algorithm>

#include "mezzo/ops/ops.h"
#include "mezzo/ops/reduce/common.h"

namespace mezzo {

namespace {

using namespace ops;

struct SumAttrs {
  Dims dim;
  bool keepdim = false;
  std::optional<DType> dtype;
  MEZZO_FIELDS(SumAttrs, dim, keepdim, dtype)
};

// --- sum

Outputs sum_forward(const ForwardArgs<SumAttrs>& args) {
  const Tensor& x = args.in(0);
  const DType natural = is_floating(x.dtype()) ? args.run_dtype.value_or(x.dtype()) : DType::i64;
  const DType result = args.attrs.dtype.value_or(natural);
  const Reduced reduced("sum", x.shape(), args.attrs.dim);
  Tensor out = reduced.make(x, args.attrs.keepdim, result);
  kernels::reduce(x.device(), kernels::Sum<>{}, reduced.view(out), view_of(x), result);
  return out;
}

Gradients sum_vjp(const VjpArgs<SumAttrs>& args) {
  const Reduced reduced("sum", args.in_shape(0), args.attrs.dim);
  // Cast before it is expanded.
  return {reduced.spread(to(args.grad(), args.wanted(0)))};
}

std::vector<Sample<SumAttrs>> sum_samples() {
  return {{{op_samples::real({3, 5, 2})}, {}},
          {{op_samples::real({3, 5, 2})}, {{-2, 0}, true, {}}},
          {{op_samples::real({7, 33})}, {{0}, false, {}}},
          {{op_samples::real({3, 41})}, {{1}, false, DType::f64}}};
}

constexpr Op<SumAttrs> sum_op =
    plain_op<SumAttrs>("sum", Category::fp32, sum_samples, sum_forward, sum_vjp, kSaveNothing);

// --- mean

[[noreturn]] void refuse_integers(std::string_view op, DType result) {
  throw DTypeError(op, "a floating tensor, or a floating dtype for the result", to_string(result),
                   "pass dtype = DType::f32");
}
Outputs mean_forward(const ForwardArgs<SumAttrs>& args) {
  const Tensor& x = args.in(0);
  const DType result = args.attrs.dtype.value_or(x.dtype());
  if (!is_floating(result)) refuse_integers("mean", result);
  const Reduced reduced("mean", x.shape(), args.attrs.dim);
  Tensor out = reduced.make(x, args.attrs.keepdim, result);
  kernels::reduce_real(x.device(), kernels::Sum<>{{}, kernels::kDivideByCount}, reduced.view(out), view_of(x),
                       result);
  return out;
}

Gradients mean_vjp(const VjpArgs<SumAttrs>& args) {
  const Reduced reduced("mean", args.in_shape(0), args.attrs.dim);
  // 1 / n is often below what 16 bits resolve: divided wide, rounded once, and while it is small.
  const Tensor share = div(widened(args.grad()), Scalar(static_cast<double>(reduced.count)));
  return {reduced.spread(to(share, args.wanted(0)))};
}

constexpr Op<SumAttrs> mean_op =
    plain_op<SumAttrs>("mean", Category::passthrough, sum_samples, mean_forward, mean_vjp, kSaveNothing);

// --- sum_to

struct SumToAttrs {
  Shape shape;
  std::optional<DType> dtype = {};
  MEZZO_FIELDS(SumToAttrs, shape, dtype)
};

Outputs sum_to_forward(const ForwardArgs<SumToAttrs>& args) {
  const Tensor& x = args.in(0);
  const DType result = args.attrs.dtype.value_or(x.dtype());
  Tensor out = empty(args.attrs.shape, {.dtype = result, .device = x.device()});
  kernels::reduce(x.device(), kernels::Sum<>{}, expanded_view("sum_to", out, x.shape()), view_of(x), result);
  return out;
}

Gradients sum_to_vjp(const VjpArgs<SumToAttrs>& args) {
  return {expand(to(args.grad(), args.wanted(0)), args.in_shape(0))};
}

std::vector<Sample<SumToAttrs>> sum_to_samples() {
  return {{{op_samples::real({3, 5, 2})}, {{5, 1}}},
          {{op_samples::real({4, 3})}, {{}}},
          {{op_samples::real({3, 4})}, {{4}, DType::f64}}};
}

constexpr Op<SumToAttrs> sum_to_op = plain_op<SumToAttrs>("sum_to", Category::passthrough, sum_to_samples,
                                                          sum_to_forward, sum_to_vjp, kSaveNothing);

// --- trace

Outputs trace_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor& x = args.in(0);
  if (x.dim() != 2) throw ShapeError("trace", "a matrix", to_string(x.shape()), "pass a tensor of 2 dims");
  const DType result = is_floating(x.dtype()) ? x.dtype() : DType::i64;
  Tensor out = empty({}, {.dtype = result, .device = x.device()});
  kernels::View diagonal = view_of(x);
  diagonal.shape = {std::min(x.shape()[0], x.shape()[1])};
  diagonal.strides = {x.strides()[0] + x.strides()[1]};
  kernels::reduce(x.device(), kernels::Sum<>{}, expanded_view("trace", out, diagonal.shape), diagonal,
                  result);
  return out;
}

Gradients trace_vjp(const VjpArgs<NoAttrs>& args) {
  const Shape& shape = args.in_shape(0);
  return {mul(eye(shape[0], shape[1], options_of(args.grad())), args.grad())};
}

std::vector<Sample<NoAttrs>> trace_samples() {
  return {{{op_samples::real({4, 4})}}, {{op_samples::real({2, 5})}}, {{op_samples::real({40, 3})}}};
}

constexpr Op<NoAttrs> trace_op =
    plain_op("trace", Category::passthrough, trace_samples, trace_forward, trace_vjp, kSaveNothing);

// --- any, all

Outputs count_forward(std::string_view op, const ForwardArgs<DimAttrs>& args, kernels::LastStep last) {
  const Tensor& x = args.in(0);
  const Reduced reduced(op, x.shape(), args.attrs.dim);
  Tensor out = reduced.make(x, args.attrs.keepdim, DType::boolean);
  // An integer that is not 0 stays so as f32; a double may not.
  const DType compute = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  kernels::reduce_real(x.device(), kernels::Sum<kernels::NonZero>{{}, last}, reduced.view(out), view_of(x),
                       compute);
  return out;
}
Outputs any_forward(const ForwardArgs<DimAttrs>& args) {
  return count_forward("any", args, kernels::kAnyCounted);
}
Outputs all_forward(const ForwardArgs<DimAttrs>& args) {
  return count_forward("all", args, kernels::kAllCounted);
}

std::vector<Sample<DimAttrs>> count_samples() {
  return {{{op_samples::mask({3, 5, 2})}, {}},
          {{op_samples::mask({3, 5, 2})}, {{-2, 0}, true}},
          {{op_samples::real({3, 5})}, {{1}}}};
}

constexpr Op<DimAttrs> any_op =
    plain_op<DimAttrs>("any", Category::passthrough, count_samples, any_forward, kBoolResult);

constexpr Op<DimAttrs> all_op =
    plain_op<DimAttrs>("all", Category::passthrough, count_samples, all_forward, kBoolResult);

const Registered reduction_registered{sum_op, mean_op, sum_to_op, trace_op, any_op, all_op};

}  // namespace

Tensor sum(const Tensor& x, const ReducedDims& dim, bool keepdim, std::optional<DType> dtype) {
  return bind(sum_op, {x}, SumAttrs{dim, keepdim, dtype});
}

Tensor mean(const Tensor& x, const ReducedDims& dim, bool keepdim, std::optional<DType> dtype) {
  return bind(mean_op, {x}, SumAttrs{dim, keepdim, dtype});
}

Tensor nansum(const Tensor& x, const ReducedDims& dim, bool keepdim, std::optional<DType> dtype) {
  require_defined("nansum", x);
  return sum(is_floating(x.dtype()) ? where(eq(x, x), x, 0) : x, dim, keepdim, dtype);
}
Tensor nanmean(const Tensor& x, const ReducedDims& dim, bool keepdim, std::optional<DType> dtype) {
  require_defined("nanmean", x);
  const DType result = dtype.value_or(x.dtype());
  if (!is_floating(result)) refuse_integers("nanmean", result);
  const Tensor total = nansum(x, dim, keepdim, compute_dtype(result));
  return to(div(total, sum(eq(x, x), dim, keepdim)), result);
}
Tensor sum_to(const Tensor& x, const Shape& shape, std::optional<DType> dtype) {
  require_defined("sum_to", x);
  if (x.shape() == shape) return dtype ? to(x, *dtype) : x;
  return bind(sum_to_op, {x}, SumToAttrs{shape, dtype});
}

Tensor trace(const Tensor& x) { return bind(trace_op, {x}); }

Tensor any(const Tensor& x, const ReducedDims& dim, bool keepdim) {
  return bind(any_op, {x}, DimAttrs{dim, keepdim});
}

Tensor all(const Tensor& x, const ReducedDims& dim, bool keepdim) {
  return bind(all_op, {x}, DimAttrs{dim, keepdim});
}

}  // namespace mezzo
