// cumsum, cumprod, logcumsumexp, cummax, cummin, prod, and the linear recurrence that their gradients are
// made of.
#include "mezzo/ops/cumulative.h"

#include "mezzo/kernels/scan/scan.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/reduce/common.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::real;

/// `x` one place further along a dim (or one place back), with `fill` in the place that gets free.
Tensor shifted(const Tensor& x, std::int64_t dim, bool back, double fill) {
  const std::int64_t size = x.dim() == 0 ? 1 : x.size(dim);
  if (size <= 1) return full_like(x, fill);
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(layout::wrap_dim("shifted", dim, shape.size()))] = 1;
  const Tensor edge = full(shape, fill, options_of(x));
  if (back) return cat({narrow(x, dim, 1, size - 1), edge}, dim);
  return cat({edge, narrow(x, dim, 0, size - 1)}, dim);
}

// --- linear_recurrence. Inputs: scale, add

struct RecurrenceAttrs {
  std::int64_t dim = 0;
  double initial = 0;
  bool reverse = false;
  MEZZO_FIELDS(RecurrenceAttrs, dim, initial, reverse)
};

Outputs recurrence_forward(const ForwardArgs<RecurrenceAttrs>& args) {
  constexpr std::string_view kName = "linear_recurrence";
  const Tensor &scale = args.in(0), &add = args.in(1);
  if (!scale.defined() && !add.defined())
    throw ValueError(kName, "scale, add or both", "neither", "leave out one of them at most");
  for (const Tensor& x : args.inputs) {
    if (x.defined()) require_floating(kName, x);
  }
  const Tensor& like = scale.defined() ? scale : add;
  if (add.defined() && add.shape() != like.shape()) {
    throw ShapeError(kName, "scale and add of one shape",
                     to_string(scale.shape()) + " and " + to_string(add.shape()), "expand one of them");
  }
  const std::int64_t dim = layout::wrap_dim(kName, args.attrs.dim, like.shape().size());
  const DType result = result_type({&scale, &add});
  Tensor out = empty_like(like, result);
  const kernels::View scales = scale.defined() ? view_of(scale) : kernels::View{};
  const kernels::View adds = add.defined() ? view_of(add) : kernels::View{};
  kernels::scan(like.device(), view_of(out),
                {.scale = scale.defined() ? &scales : nullptr,
                 .add = add.defined() ? &adds : nullptr,
                 .initial = args.attrs.initial,
                 .reverse = args.attrs.reverse},
                static_cast<std::size_t>(dim), compute_dtype(result));
  return out;
}

/// The gradient of h_i is its own gradient plus scale_(i+1) times the gradient of h_(i+1): again a
/// recurrence, in reverse.
Gradients recurrence_vjp(const VjpArgs<RecurrenceAttrs>& args) {
  const auto& [dim, initial, reverse] = args.attrs;
  const Tensor scale = args.in(0);
  const Tensor next = scale.defined() ? shifted(scale, dim, !reverse, 0) : Tensor();
  const Tensor flow = linear_recurrence(next, widened(args.grad()), dim, 0, !reverse);
  if (!args.needs(0)) return {Tensor(), flow};
  // A 16-bit result is computed again, not to take the gradient of rounded values.
  const Tensor add = args.in(1);
  const Tensor h =
      is_16bit(args.out_dtype())
          ? linear_recurrence(widened(scale), add.defined() ? widened(add) : add, dim, initial, reverse)
          : args.out();
  return {flow * shifted(h, dim, reverse, initial), flow};
}

std::vector<Sample<RecurrenceAttrs>> recurrence_samples() {
  return {{{real({3, 5}), real({3, 5})}, {.dim = 1, .initial = 0.5}},
          {{real({4, 2}), op_samples::absent()}, {.dim = 0, .initial = -2, .reverse = true}},
          {{op_samples::absent(), real({2, 3, 2})}, {.dim = -2, .initial = 1}},
          {{real({2, 37}, -1, 1), real({2, 37})}, {.dim = 1, .reverse = true}}};
}
constexpr Op<RecurrenceAttrs> recurrence_op =
    plain_op<RecurrenceAttrs>("linear_recurrence", Category::passthrough, recurrence_samples,
                              recurrence_forward, recurrence_vjp, kSaveAll, tensor_set(0, 1));

// --- cumsum, cumprod

struct CumulativeAttrs {
  std::int64_t dim = 0;
  std::optional<DType> dtype = {};
  MEZZO_FIELDS(CumulativeAttrs, dim, dtype)
};

/// dtype of a result of x: integers become i64.
template <class A>
DType accumulated_dtype(const ForwardArgs<A>& args) {
  const DType x = args.in(0).dtype();
  return args.attrs.dtype.value_or(is_floating(x) ? args.run_dtype.value_or(x) : DType::i64);
}

Tensor scanned(std::string_view op, const ForwardArgs<CumulativeAttrs>& args, bool product) {
  const Tensor& x = args.in(0);
  const DType result = accumulated_dtype(args);
  const std::int64_t dim = layout::wrap_dim(op, args.attrs.dim, x.shape().size());
  Tensor out = empty_like(x, result);
  const kernels::View in = view_of(x);
  const kernels::Recurrence sums{.add = &in}, products{.scale = &in, .initial = 1};
  kernels::scan(x.device(), view_of(out), product ? products : sums, static_cast<std::size_t>(dim),
                compute_dtype(result));
  return out;
}
Outputs cumsum_forward(const ForwardArgs<CumulativeAttrs>& args) { return scanned("cumsum", args, false); }
Outputs cumprod_forward(const ForwardArgs<CumulativeAttrs>& args) { return scanned("cumprod", args, true); }

Gradients cumsum_vjp(const VjpArgs<CumulativeAttrs>& args) {
  return {linear_recurrence({}, args.grad(), args.attrs.dim, 0, true)};
}
Gradients cumprod_vjp(const VjpArgs<CumulativeAttrs>& args) {
  const std::int64_t dim = args.attrs.dim;
  const DType compute = compute_dtype(args.out_dtype());
  const Tensor x = to(args.in(0), compute);
  const Tensor products = is_16bit(args.out_dtype()) ? cumprod(x, dim) : args.out();
  const Tensor flow = linear_recurrence(shifted(x, dim, true, 0), to(args.grad(), compute), dim, 0, true);
  return {flow * shifted(products, dim, false, 1)};
}

std::vector<Sample<CumulativeAttrs>> cumulative_samples() {
  return {{{real({3, 5})}, {.dim = 1}},
          {{real({5, 3})}, {.dim = 0}},
          {{real({2, 40, 2}, -1.2, 1.2)}, {.dim = -2}},
          {{real({})}, {.dim = 0}},
          {{real({2, 3})}, {.dim = -1, .dtype = DType::f64}}};
}
constexpr Op<CumulativeAttrs> cumsum_op = plain_op<CumulativeAttrs>(
    "cumsum", Category::fp32, cumulative_samples, cumsum_forward, cumsum_vjp, kSaveNothing);
constexpr Op<CumulativeAttrs> cumprod_op =
    plain_op<CumulativeAttrs>("cumprod", Category::fp32, cumulative_samples, cumprod_forward, cumprod_vjp);

// --- logcumsumexp

Outputs logcumsumexp_forward(const ForwardArgs<AlongAttrs>& args) {
  constexpr std::string_view kName = "logcumsumexp";
  const Tensor& x = args.in(0);
  require_floating(kName, x);
  const std::int64_t dim = layout::wrap_dim(kName, args.attrs.dim, x.shape().size());
  Tensor out = empty_like(x, x.dtype());
  kernels::log_scan(x.device(), view_of(out), view_of(x), static_cast<std::size_t>(dim),
                    compute_dtype(x.dtype()));
  return out;
}

/// dx_j = e^(x_j - y_j) f_j, where f_j = sum over i >= j of g_i e^(y_j - y_i) is again a recurrence: y does
/// not fall, so its scales e^(y_j - y_(j+1)) are at most 1.
Gradients logcumsumexp_vjp(const VjpArgs<AlongAttrs>& args) {
  const std::int64_t dim = args.attrs.dim;
  const Tensor x = widened(args.in(0));
  const Tensor y = is_16bit(args.out_dtype()) ? logcumsumexp(x, dim) : args.out();
  const Tensor none_yet = eq(y, -kInfinity);
  const Tensor step = where(eq(y, kInfinity), 0.0, y - shifted(y, dim, true, kInfinity));
  const Tensor flow =
      linear_recurrence(exp(where(none_yet, -kInfinity, step)), widened(args.grad()), dim, 0, true);
  return {exp(where(none_yet, -kInfinity, x - y)) * flow};
}

std::vector<Sample<AlongAttrs>> logcumsumexp_samples() {
  return {{{real({3, 5})}, {1}},
          {{real({5, 3}, 80, 100)}, {0}},
          {{real({2, 40, 2}, -100, 10)}, {-2}},
          {{real({})}, {0}}};
}
constexpr Op<AlongAttrs> logcumsumexp_op =
    plain_op<AlongAttrs>("logcumsumexp", Category::passthrough, logcumsumexp_samples, logcumsumexp_forward,
                         logcumsumexp_vjp, {1U, 1U});

// --- cummax, cummin

template <bool kLeast>
Outputs extrema_forward(const ForwardArgs<AlongAttrs>& args) {
  const Tensor& x = args.in(0);
  const auto dim = static_cast<std::size_t>(
      layout::wrap_dim(kLeast ? "cummin" : "cummax", args.attrs.dim, x.shape().size()));
  const auto scanned = [&](const Tensor& from, bool least) {
    Tensor out = empty_like(from);
    kernels::extremum_scan(x.device(), view_of(out), view_of(from), dim, least, compute_dtype(from.dtype()));
    return out;
  };
  const Tensor values = scanned(x, kLeast);
  Shape along(x.shape().size(), 1);
  if (!along.empty()) along[dim] = x.shape()[dim];
  const Tensor positions = reshape(arange(layout::numel(along), {.device = x.device()}), along);
  const Tensor is_record = logical_or(eq(x, values), ne(x, x));
  return Tensors{values, scanned(where(is_record, positions, 0), false)};
}
template <bool kLeast>
Gradients extrema_vjp(const VjpArgs<AlongAttrs>& args) {
  const Tensor grad = args.grad(0);
  return {scatter_add(zeros(args.in_shape(0), options_of(grad)), args.attrs.dim, args.out(1), grad)};
}
std::vector<Sample<AlongAttrs>> extrema_samples() {
  return {{{op_samples::distinct({3, 5})}, {1}},
          {{op_samples::distinct({6, 2})}, {0}},
          {{op_samples::distinct({2, 19, 2})}, {-2}},
          {{op_samples::distinct({})}, {0}}};
}
template <bool kLeast>
constexpr Op<AlongAttrs> extrema_op = plain_op<AlongAttrs>(kLeast ? "cummin" : "cummax",
                                                           Category::passthrough, extrema_samples,
                                                           extrema_forward<kLeast>, extrema_vjp<kLeast>,
                                                           save_outputs(1));

// --- prod

struct ProdAttrs {
  std::optional<std::int64_t> dim = {};
  bool keepdim = false;
  std::optional<DType> dtype = {};
  MEZZO_FIELDS(ProdAttrs, dim, keepdim, dtype)
};

Outputs prod_forward(const ForwardArgs<ProdAttrs>& args) {
  const Tensor& x = args.in(0);
  const DType result = accumulated_dtype(args);
  const Reduced reduced("prod", x.shape(), args.attrs.dim ? Dims{*args.attrs.dim} : Dims{});
  Tensor out = reduced.make(x, args.attrs.keepdim, result);
  kernels::reduce(x.device(), kernels::Product{}, reduced.view(out), view_of(x), result);
  return out;
}

/// Each element's factor is the product of all before it times the product of all behind it. In f64, as
/// partial products leave the range of f32 sooner than the whole does.
Gradients prod_vjp(const VjpArgs<ProdAttrs>& args) {
  const Shape& shape = args.in_shape(0);
  const bool along = args.attrs.dim && !shape.empty();
  const std::int64_t dim = along ? *args.attrs.dim : 0;
  const Tensor x = to(args.in(0), DType::f64);
  const Tensor line = along ? x : reshape(x, {x.numel()});
  const Tensor before = shifted(cumprod(line, dim), dim, false, 1);
  const Tensor behind = shifted(linear_recurrence(line, {}, dim, 1, true), dim, true, 1);
  const Tensor grad = to(args.grad(), DType::f64);
  const Tensor spread = !along ? reshape(grad, {1}) : args.attrs.keepdim ? grad : unsqueeze(grad, dim);
  return {to(reshape(before * behind * spread, shape), args.wanted(0))};
}

std::vector<Sample<ProdAttrs>> prod_samples() {
  return {{{real({2, 3})}, {}},
          {{real({3, 5})}, {.dim = 0}},
          {{real({3, 5})}, {.dim = -1, .keepdim = true}},
          {{real({2, 33}, -1.2, 1.2)}, {.dim = 1, .dtype = DType::f64}},
          {{real({})}, {.dim = 0}}};
}
constexpr Op<ProdAttrs> prod_op =
    plain_op<ProdAttrs>("prod", Category::fp32, prod_samples, prod_forward, prod_vjp, save_inputs(0));

const Registered cumulative_registered{recurrence_op,     cumsum_op,        cumprod_op, logcumsumexp_op,
                                       extrema_op<false>, extrema_op<true>, prod_op};

}  // namespace

Tensor linear_recurrence(const Tensor& scale, const Tensor& add, std::int64_t dim, double initial,
                         bool reverse) {
  return bind(recurrence_op, {scale, add}, RecurrenceAttrs{dim, initial, reverse});
}

Tensor cumsum(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  return bind(cumsum_op, {x}, CumulativeAttrs{dim, dtype});
}

Tensor cumprod(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  return bind(cumprod_op, {x}, CumulativeAttrs{dim, dtype});
}

Tensor logcumsumexp(const Tensor& x, std::int64_t dim) { return bind(logcumsumexp_op, {x}, AlongAttrs{dim}); }

ValuesIndices cummax(const Tensor& x, std::int64_t dim) {
  Outputs outputs = bind(extrema_op<false>, {x}, AlongAttrs{dim});
  return {std::move(outputs[0]), std::move(outputs[1])};
}
ValuesIndices cummin(const Tensor& x, std::int64_t dim) {
  Outputs outputs = bind(extrema_op<true>, {x}, AlongAttrs{dim});
  return {std::move(outputs[0]), std::move(outputs[1])};
}

Tensor prod(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim, std::optional<DType> dtype) {
  return bind(prod_op, {x}, ProdAttrs{dim, keepdim, dtype});
}

}  // namespace mezzo
