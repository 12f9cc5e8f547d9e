// Largest and smallest elements, and where they stand.
#include "mezzo/ops/ops.h"
#include "mezzo/ops/reduce/common.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::distinct;

// --- amax, amin, and max_all, min_all without dims

template <bool Least>
Tensor extremum(std::string_view op, const Tensor& x, const DimAttrs& attrs) {
  const Reduced reduced(op, x.shape(), attrs.dim);
  reduced.require_elements(op);
  Tensor out = reduced.make(x, attrs.keepdim, x.dtype());
  kernels::reduce(x.device(), kernels::Extremum<Least>{}, reduced.view(out), view_of(x), x.dtype());
  return out;
}

Gradients dims_vjp(const VjpArgs<DimAttrs>& args) {
  const Reduced reduced("amax", args.in_shape(0), args.attrs.dim);
  return {share_evenly(args.grad(), eq(args.in(0), reduced.with_dims(args.out())), reduced)};
}

template <bool Least>
Outputs extremum_dims_forward(const ForwardArgs<DimAttrs>& args) {
  return extremum<Least>(Least ? "amin" : "amax", args.in(0), args.attrs);
}

std::vector<Sample<DimAttrs>> dims_samples() {
  return {{{distinct({3, 5, 2})}, {}},
          {{distinct({3, 5, 2})}, {{-2, 0}, true}},
          {{distinct({7, 33})}, {{1}, false}}};
}

constexpr Saves kSaveBoth{1U, 1U};

template <bool Least>
constexpr Op<DimAttrs> extremum_dims_op = plain_op<DimAttrs>(Least ? "amin" : "amax", Category::passthrough,
                                                             dims_samples, extremum_dims_forward<Least>,
                                                             dims_vjp, kSaveBoth);

template <bool Least>
Outputs extremum_all_forward(const ForwardArgs<NoAttrs>& args) {
  return extremum<Least>(Least ? "min" : "max", args.in(0), {});
}
/// Other than amax, as in PyTorch: where the extremum is NaN, the NaNs share the gradient.
Gradients all_vjp(const VjpArgs<NoAttrs>& args) {
  const Reduced reduced("max", args.in_shape(0), {});
  const Tensor x = args.in(0);
  const Tensor chosen = logical_or(eq(x, reduced.with_dims(args.out())), isnan(x));
  return {share_evenly(args.grad(), chosen, reduced)};
}
std::vector<Sample<NoAttrs>> all_samples() { return {{{distinct({3, 5})}}, {{distinct({})}}}; }

template <bool Least>
constexpr Op<NoAttrs> extremum_all_op = plain_op(Least ? "min_all" : "max_all", Category::passthrough,
                                                 all_samples, extremum_all_forward<Least>, all_vjp,
                                                 kSaveBoth);

// --- max_dim, min_dim

struct OneDimAttrs {
  std::int64_t dim = 0;
  bool keepdim = false;
  MEZZO_FIELDS(OneDimAttrs, dim, keepdim)
};

template <bool Least>
Outputs one_dim_forward(const ForwardArgs<OneDimAttrs>& args) {
  const std::string_view op = Least ? "min" : "max";
  const Tensor& x = args.in(0);
  const Reduced reduced(op, x.shape(), {args.attrs.dim});
  reduced.require_elements(op);
  Tensor values = reduced.make(x, args.attrs.keepdim, x.dtype());
  Tensor indices = reduced.make(x, args.attrs.keepdim, DType::i64);
  kernels::arg_reduce<Least>(x.device(), reduced.view(values), reduced.view(indices), view_of(x));
  return Tensors{values, indices};
}

Gradients one_dim_vjp(const VjpArgs<OneDimAttrs>& args) {
  const Reduced reduced("max", args.in_shape(0), {args.attrs.dim});
  const Tensor gradient = reduced.with_dims(args.grad(0));
  if (reduced.dims.empty()) return {gradient};
  Shape line(reduced.before.size(), 1);
  line[static_cast<std::size_t>(reduced.dims[0])] = reduced.count;
  const Tensor positions = reshape(arange(reduced.count, {.device = args.in_device(0)}), line);
  return {where(eq(positions, reduced.with_dims(args.out(1))), gradient, 0)};
}

std::vector<Sample<OneDimAttrs>> one_dim_samples() {
  return {
      {{distinct({3, 5, 2})}, {1, false}}, {{distinct({3, 5, 2})}, {-1, true}}, {{distinct({})}, {0, false}}};
}

template <bool Least>
constexpr Op<OneDimAttrs> extremum_dim_op = plain_op<OneDimAttrs>(Least ? "min_dim" : "max_dim",
                                                                  Category::passthrough, one_dim_samples,
                                                                  one_dim_forward<Least>, one_dim_vjp,
                                                                  save_outputs(1));

// --- argmax, argmin

struct ArgAttrs {
  std::optional<std::int64_t> dim;
  bool keepdim = false;
  MEZZO_FIELDS(ArgAttrs, dim, keepdim)
};

template <bool Least>
Outputs arg_forward(const ForwardArgs<ArgAttrs>& args) {
  const std::string_view op = Least ? "argmin" : "argmax";
  const Tensor& x = args.in(0);
  const Reduced reduced(op, x.shape(), args.attrs.dim ? Dims{*args.attrs.dim} : Dims{});
  reduced.require_elements(op);
  Tensor indices = reduced.make(x, args.attrs.keepdim, DType::i64);
  kernels::arg_reduce<Least>(x.device(), {}, reduced.view(indices), view_of(x));
  return indices;
}

std::vector<Sample<ArgAttrs>> arg_samples() {
  return {
      {{distinct({3, 5, 2})}, {}}, {{distinct({3, 5, 2})}, {-2, true}}, {{distinct({7, 33})}, {1, false}}};
}

template <bool Least>
constexpr Op<ArgAttrs> arg_extremum_op = plain_op<ArgAttrs>(Least ? "argmin" : "argmax",
                                                            Category::passthrough, arg_samples,
                                                            arg_forward<Least>,
                                                            NotDifferentiable{"the result is an index"});

ValuesIndices pair(Outputs outputs) { return {std::move(outputs[0]), std::move(outputs[1])}; }

const Registered extremum_registered{extremum_dims_op<false>, extremum_dims_op<true>, extremum_all_op<false>,
                                     extremum_all_op<true>,   extremum_dim_op<false>, extremum_dim_op<true>,
                                     arg_extremum_op<false>,  arg_extremum_op<true>};

}  // namespace

Tensor amax(const Tensor& x, const ReducedDims& dim, bool keepdim) {
  return bind(extremum_dims_op<false>, {x}, DimAttrs{dim, keepdim});
}
Tensor amin(const Tensor& x, const ReducedDims& dim, bool keepdim) {
  return bind(extremum_dims_op<true>, {x}, DimAttrs{dim, keepdim});
}
Tensor max(const Tensor& x) { return bind(extremum_all_op<false>, {x}); }
Tensor min(const Tensor& x) { return bind(extremum_all_op<true>, {x}); }
Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
ValuesIndices max(const Tensor& x, std::int64_t dim, bool keepdim) {
  return pair(bind(extremum_dim_op<false>, {x}, OneDimAttrs{dim, keepdim}));
}
ValuesIndices min(const Tensor& x, std::int64_t dim, bool keepdim) {
  return pair(bind(extremum_dim_op<true>, {x}, OneDimAttrs{dim, keepdim}));
}
MinMax aminmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  const ReducedDims dims = dim ? ReducedDims(*dim) : ReducedDims();
  return {amin(x, dims, keepdim), amax(x, dims, keepdim)};
}
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return bind(arg_extremum_op<false>, {x}, ArgAttrs{dim, keepdim});
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return bind(arg_extremum_op<true>, {x}, ArgAttrs{dim, keepdim});
}

}  // namespace mezzo
