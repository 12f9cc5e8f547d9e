// Views: ops whose result shows the same storage with another shape and other strides.
#include <numeric>

#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

/// x's storage from x's first element on, laid out anew.
Tensor shown(const Tensor& x, const Shape& shape, const Dims& strides) {
  return alias(x, shape, strides, x.impl().offset, true);
}

/// The gradient of every op that only changes the shape.
template <class A>
Gradients reshape_back(const VjpArgs<A>& args) {
  return {reshape(args.grad(), args.in_shape(0))};
}

// --- reshape

struct ReshapeAttrs {
  Shape shape;
  MEZZO_FIELDS(ReshapeAttrs, shape)
};
/// x as `shape`, which has its number of elements.
Tensor reshaped(const Tensor& x, const Shape& shape) {
  if (const auto strides = layout::reshape_strides(x.shape(), x.strides(), shape))
    return shown(x, shape, *strides);
  return alias(clone(x, MemoryFormat::contiguous), shape, layout::contiguous_strides(shape), 0, false);
}
Outputs reshape_forward(const ForwardArgs<ReshapeAttrs>& args) {
  const Tensor& x = args.in(0);
  return reshaped(x, layout::resolve_reshape("reshape", x.numel(), args.attrs.shape));
}
std::vector<Sample<ReshapeAttrs>> reshape_samples() {
  return {{{op_samples::real({3, 4})}, {{2, 6}}},
          {{op_samples::real({2, 3, 4})}, {{4, -1}}},
          {{op_samples::real({3, 1})}, {{-1}}},
          {{op_samples::real({1})}, {{}}}};
}
constexpr Op<ReshapeAttrs> reshape_op =
    moving_op<ReshapeAttrs>("reshape", reshape_samples, reshape_forward, reshape_back<ReshapeAttrs>);

// --- permute, transpose

struct PermuteAttrs {
  Dims dims;
  MEZZO_FIELDS(PermuteAttrs, dims)
};
/// The dims wrapped; throws unless they are a permutation.
Dims checked_permutation(const Dims& dims, std::size_t rank) {
  Dims wrapped;
  for (const std::int64_t dim : dims) wrapped.push_back(layout::wrap_dim("permute", dim, rank));
  Dims sorted = wrapped, all(rank, 0);
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), std::int64_t{0});
  if (sorted == all) return wrapped;
  throw ShapeError("permute", "each of the " + std::to_string(rank) + " dims once", to_string(dims),
                   "name every dim of the tensor");
}
Outputs permute_forward(const ForwardArgs<PermuteAttrs>& args) {
  const Tensor& x = args.in(0);
  Shape shape;
  Dims strides;
  for (const std::int64_t dim : checked_permutation(args.attrs.dims, x.shape().size())) {
    shape.push_back(x.shape()[static_cast<std::size_t>(dim)]);
    strides.push_back(x.strides()[static_cast<std::size_t>(dim)]);
  }
  return shown(x, shape, strides);
}
Gradients permute_vjp(const VjpArgs<PermuteAttrs>& args) {
  const Dims dims = checked_permutation(args.attrs.dims, args.in_shape(0).size());
  Dims inverse(dims.size(), 0);
  for (std::size_t i = 0; i < dims.size(); ++i)
    inverse[static_cast<std::size_t>(dims[i])] = static_cast<std::int64_t>(i);
  return {permute(args.grad(), inverse)};
}
std::vector<Sample<PermuteAttrs>> permute_samples() {
  return {{{op_samples::real({2, 3, 4})}, {{2, 0, 1}}}, {{op_samples::real({2, 3})}, {{-1, 0}}}};
}
constexpr Op<PermuteAttrs> permute_op =
    moving_op<PermuteAttrs>("permute", permute_samples, permute_forward, permute_vjp);

struct TransposeAttrs {
  std::int64_t d0 = 0, d1 = 1;
  MEZZO_FIELDS(TransposeAttrs, d0, d1)
};
Outputs transpose_forward(const ForwardArgs<TransposeAttrs>& args) {
  const Tensor& x = args.in(0);
  Shape shape = x.shape();
  Dims strides = x.strides();
  const auto d0 = static_cast<std::size_t>(layout::wrap_dim("transpose", args.attrs.d0, shape.size()));
  const auto d1 = static_cast<std::size_t>(layout::wrap_dim("transpose", args.attrs.d1, shape.size()));
  if (d0 != d1) {  // also: dims there are
    std::swap(shape[d0], shape[d1]);
    std::swap(strides[d0], strides[d1]);
  }
  return shown(x, shape, strides);
}
Gradients transpose_vjp(const VjpArgs<TransposeAttrs>& args) {
  return {transpose(args.grad(), args.attrs.d0, args.attrs.d1)};
}
std::vector<Sample<TransposeAttrs>> transpose_samples() {
  return {{{op_samples::real({2, 3, 4})}, {0, 2}}, {{op_samples::real({3, 4})}, {-1, -2}}};
}
constexpr Op<TransposeAttrs> transpose_op =
    moving_op<TransposeAttrs>("transpose", transpose_samples, transpose_forward, transpose_vjp);

// --- expand

struct ExpandAttrs {
  Shape sizes;
  MEZZO_FIELDS(ExpandAttrs, sizes)
};
Outputs expand_forward(const ForwardArgs<ExpandAttrs>& args) {
  const Tensor& x = args.in(0);
  Shape target = args.attrs.sizes;
  const std::size_t rank = x.shape().size();
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] >= 0) continue;
    const std::size_t from_end = target.size() - i;
    if (target[i] != -1 || from_end > rank) {
      throw ShapeError("expand", "sizes of at least 0, or -1 for a dim that is there",
                       to_string(args.attrs.sizes), "the tensor has shape " + to_string(x.shape()));
    }
    target[i] = x.shape()[rank - from_end];
  }
  layout::checked_numel("expand", target);
  return shown(x, target, layout::expand_strides("expand", x.shape(), x.strides(), target));
}
Gradients expand_vjp(const VjpArgs<ExpandAttrs>& args) {
  return {sum_to(args.grad(), args.in_shape(0), args.wanted(0))};
}
std::vector<Sample<ExpandAttrs>> expand_samples() {
  return {{{op_samples::real({3, 1})}, {{3, 4}}},
          {{op_samples::real({1})}, {{2, 5}}},
          {{op_samples::real({2, 1, 3})}, {{-1, 4, -1}}},
          {{op_samples::real({})}, {{2, 2}}}};
}
constexpr Op<ExpandAttrs> expand_op =
    moving_op<ExpandAttrs>("expand", expand_samples, expand_forward, expand_vjp);

// --- dims of size 1

struct SqueezeAttrs {
  Dims dim;
  MEZZO_FIELDS(SqueezeAttrs, dim)
};
Outputs squeeze_forward(const ForwardArgs<SqueezeAttrs>& args) {
  const Tensor& x = args.in(0);
  const Dims chosen = layout::wrap_dims("squeeze", args.attrs.dim, x.shape().size());
  Shape shape;
  Dims strides;
  for (std::size_t i = 0; i < x.shape().size(); ++i) {
    if (x.shape()[i] == 1 && chosen.contains(static_cast<std::int64_t>(i))) continue;
    shape.push_back(x.shape()[i]);
    strides.push_back(x.strides()[i]);
  }
  return shown(x, shape, strides);
}
std::vector<Sample<SqueezeAttrs>> squeeze_samples() {
  return {{{op_samples::real({1, 3, 1})}},
          {{op_samples::real({1, 3, 1})}, {{-1}}},
          {{op_samples::real({2, 3})}, {{0}}},
          {{op_samples::real({1, 2, 1, 1})}, {{0, -1}}}};
}
constexpr Op<SqueezeAttrs> squeeze_op =
    moving_op<SqueezeAttrs>("squeeze", squeeze_samples, squeeze_forward, reshape_back<SqueezeAttrs>);

Outputs unsqueeze_forward(const ForwardArgs<AlongAttrs>& args) {
  const Tensor& x = args.in(0);
  Shape shape = x.shape();
  Dims strides = x.strides();
  const auto at = static_cast<std::size_t>(layout::wrap_dim("unsqueeze", args.attrs.dim, shape.size() + 1));
  const std::int64_t stride = at < shape.size() ? shape[at] * strides[at] : 1;
  shape.insert(at, 1);
  strides.insert(at, stride);
  return shown(x, shape, strides);
}
std::vector<Sample<AlongAttrs>> unsqueeze_samples() {
  return {
      {{op_samples::real({2, 3})}, {0}}, {{op_samples::real({2, 3})}, {-1}}, {{op_samples::real({})}, {0}}};
}
constexpr Op<AlongAttrs> unsqueeze_op =
    moving_op<AlongAttrs>("unsqueeze", unsqueeze_samples, unsqueeze_forward, reshape_back<AlongAttrs>);

struct FlattenAttrs {
  std::int64_t start_dim = 0, end_dim = -1;
  MEZZO_FIELDS(FlattenAttrs, start_dim, end_dim)
};
Outputs flatten_forward(const ForwardArgs<FlattenAttrs>& args) {
  const Tensor& x = args.in(0);
  const auto first =
      static_cast<std::size_t>(layout::wrap_dim("flatten", args.attrs.start_dim, x.shape().size()));
  const auto last =
      static_cast<std::size_t>(layout::wrap_dim("flatten", args.attrs.end_dim, x.shape().size()));
  if (first > last) {
    throw ShapeError("flatten", "start_dim <= end_dim", std::to_string(first) + " > " + std::to_string(last),
                     "swap them");
  }
  Shape shape;
  for (std::size_t i = 0; i < x.shape().size(); ++i) {
    if (i > first && i <= last)
      shape.back() *= x.shape()[i];
    else
      shape.push_back(x.shape()[i]);
  }
  if (shape.empty()) shape = {1};
  return reshaped(x, shape);
}
std::vector<Sample<FlattenAttrs>> flatten_samples() {
  return {{{op_samples::real({2, 3, 4})}, {1, -1}}, {{op_samples::real({2, 3})}}, {{op_samples::real({})}}};
}
constexpr Op<FlattenAttrs> flatten_op =
    moving_op<FlattenAttrs>("flatten", flatten_samples, flatten_forward, reshape_back<FlattenAttrs>);

Outputs identity_forward(const ForwardArgs<NoAttrs>& args) {
  return shown(args.in(0), args.in(0).shape(), args.in(0).strides());
}
Gradients identity_vjp(const VjpArgs<NoAttrs>& args) { return {args.grad()}; }
std::vector<Sample<NoAttrs>> identity_samples() { return {{{op_samples::real({3, 4})}}}; }
constexpr Op<NoAttrs> identity_op{
    .info = {.name = "identity",
             .category = Category::passthrough,
             .takes_float8 = true,
             .elementwise = true},
    .samples = identity_samples,
    .forward = identity_forward,
    .vjp = identity_vjp,
    .saves = kSaveNothing,
};

const Registered view_registered{reshape_op, permute_op,   transpose_op, expand_op,
                                 squeeze_op, unsqueeze_op, flatten_op,   identity_op};

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) { return bind(reshape_op, {x}, {shape}); }

Tensor view(const Tensor& x, const Shape& shape) {
  require_defined("view", x);
  const Shape target = layout::resolve_reshape("view", x.numel(), shape);
  if (!layout::reshape_strides(x.shape(), x.strides(), target)) {
    throw ShapeError("view", "a shape that strides can show",
                     to_string(target) + " of a tensor of shape " + to_string(x.shape()) + " with strides " +
                         to_string(x.strides()),
                     "use reshape, which copies where it must");
  }
  return reshape(x, target);
}

Tensor permute(const Tensor& x, const Dims& dims) { return bind(permute_op, {x}, {dims}); }
Tensor transpose(const Tensor& x, std::int64_t d0, std::int64_t d1) {
  return bind(transpose_op, {x}, {d0, d1});
}
Tensor t(const Tensor& x) {
  require_defined("t", x);
  if (x.dim() > 2) {
    throw ShapeError("t", "at most 2 dims", to_string(x.shape()), "use transpose or permute");
  }
  return transpose(x, 0, x.dim() < 2 ? 0 : 1);
}
Tensor expand(const Tensor& x, const Shape& sizes) { return bind(expand_op, {x}, {sizes}); }
Tensor squeeze(const Tensor& x, const Dims& dim) { return bind(squeeze_op, {x}, {dim}); }
Tensor unsqueeze(const Tensor& x, std::int64_t dim) { return bind(unsqueeze_op, {x}, {dim}); }
Tensor flatten(const Tensor& x, std::int64_t start_dim, std::int64_t end_dim) {
  return bind(flatten_op, {x}, {start_dim, end_dim});
}
Tensor identity(const Tensor& x) { return bind(identity_op, {x}); }

}  // namespace mezzo
