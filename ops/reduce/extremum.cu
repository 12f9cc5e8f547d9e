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

Outputs amax_forward(const ForwardArgs<DimAttrs>& args) {
  return extremum<false>("amax", args.in(0), args.attrs);
}
Outputs amin_forward(const ForwardArgs<DimAttrs>& args) {
  return extremum<true>("amin", args.in(0), args.attrs);
}

std::vector<Sample<DimAttrs>> dims_samples() {
  return {{{distinct({3, 5, 2})}, {}},
          {{distinct({3, 5, 2})}, {{-2, 0}, true}},
          {{distinct({7, 33})}, {{1}, false}}};
}

constexpr Saves kSaveBoth{1U, 1U};

constexpr Op<DimAttrs> amax_op =
    plain_op<DimAttrs>("amax", Category::passthrough, dims_samples, amax_forward, dims_vjp, kSaveBoth);

constexpr Op<DimAttrs> amin_op =
    plain_op<DimAttrs>("amin", Category::passthrough, dims_samples, amin_forward, dims_vjp, kSaveBoth);

Outputs max_all_forward(const ForwardArgs<NoAttrs>& args) { return extremum<false>("max", args.in(0), {}); }
Outputs min_all_forward(const ForwardArgs<NoAttrs>& args) { return extremum<true>("min", args.in(0), {}); }
/// Other than amax, as in PyTorch: where the extremum is NaN, the NaNs share the gradient.
Gradients all_vjp(const VjpArgs<NoAttrs>& args) {
  const Reduced reduced("max", args.in_shape(0), {});
  const Tensor x = args.in(0);
  const Tensor chosen = logical_or(eq(x, reduced.with_dims(args.out())), isnan(x));
  return {share_evenly(args.grad(), chosen, reduced)};
}
std::vector<Sample<NoAttrs>> all_samples() { return {{{distinct({3, 5})}}, {{distinct({})}}}; }

constexpr Op<NoAttrs> max_all_op =
    plain_op("max_all", Category::passthrough, all_samples, max_all_forward, all_vjp, kSaveBoth);

constexpr Op<NoAttrs> min_all_op =
    plain_op("min_all", Category::passthrough, all_samples, min_all_forward, all_vjp, kSaveBoth);

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

constexpr Op<OneDimAttrs> max_dim_op = plain_op<OneDimAttrs>(
    "max_dim", Category::passthrough, one_dim_samples, one_dim_forward<false>, one_dim_vjp, save_outputs(1));

constexpr Op<OneDimAttrs> min_dim_op = plain_op<OneDimAttrs>(
    "min_dim", Category::passthrough, one_dim_samples, one_dim_forward<true>, one_dim_vjp, save_outputs(1));

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

constexpr Op<ArgAttrs> argmax_op =
    plain_op<ArgAttrs>("argmax", Category::passthrough, arg_samples, arg_forward<false>,
                       NotDifferentiable{"the result is an index"});

constexpr Op<ArgAttrs> argmin_op =
    plain_op<ArgAttrs>("argmin", Category::passthrough, arg_samples, arg_forward<true>,
                       NotDifferentiable{"the result is an index"});

ValuesIndices pair(Outputs outputs) { return {std::move(outputs[0]), std::move(outputs[1])}; }

const Registered extremum_registered{amax_op,    amin_op,    max_all_op, min_all_op,
                                     max_dim_op, min_dim_op, argmax_op,  argmin_op};

}  // namespace

Tensor amax(const Tensor& x, const ReducedDims& dim, bool keepdim) {
  return bind(amax_op, {x}, DimAttrs{dim, keepdim});
}
Tensor amin(const Tensor& x, const ReducedDims& dim, bool keepdim) {
  return bind(amin_op, {x}, DimAttrs{dim, keepdim});
}
Tensor max(const Tensor& x) { return bind(max_all_op, {x}); }
Tensor min(const Tensor& x) { return bind(min_all_op, {x}); }
Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
ValuesIndices max(const Tensor& x, std::int64_t dim, bool keepdim) {
  return pair(bind(max_dim_op, {x}, OneDimAttrs{dim, keepdim}));
}
ValuesIndices min(const Tensor& x, std::int64_t dim, bool keepdim) {
  return pair(bind(min_dim_op, {x}, OneDimAttrs{dim, keepdim}));
}
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return bind(argmax_op, {x}, ArgAttrs{dim, keepdim});
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return bind(argmin_op, {x}, ArgAttrs{dim, keepdim});
}

}  // namespace mezzo
