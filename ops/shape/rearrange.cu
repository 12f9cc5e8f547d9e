// Mirrors, rotations and triangles, and rearrangements that are compositions of views.
#include "mezzo/ops/rearrange.h"

#include <algorithm>

#include "mezzo/ops/forward.h"
#include "mezzo/ops/indexing/common.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/shape/copy_into.h"

namespace mezzo {

namespace {

using namespace ops;

// --- flip

struct FlipAttrs {
  Dims dims;
  MEZZO_FIELDS(FlipAttrs, dims)
};
/// A copy from the last element of each dim backwards.
Outputs flip_forward(const ForwardArgs<FlipAttrs>& args) {
  const Tensor& x = args.in(0);
  const Dims dims =
      args.attrs.dims.empty() ? Dims{} : layout::wrap_dims("flip", args.attrs.dims, x.shape().size());
  Tensor out = empty_like(x);
  if (x.numel() == 0) return out;
  kernels::View from = view_of(x);
  std::int64_t last = 0;
  for (const std::int64_t dim : dims) {
    const auto d = static_cast<std::size_t>(dim);
    if (d >= x.shape().size()) continue;  // a 0-dim tensor takes dim 0
    last += (from.shape[d] - 1) * from.strides[d];
    from.strides[d] = -from.strides[d];
  }
  from.data = static_cast<std::byte*>(from.data) + last * size_of(from.dtype);
  kernels::pointwise(x.device(), kernels::scalar::IdentityFn{}, view_of(out), std::array{from},
                     compute_dtype(x.dtype()));
  return out;
}
Gradients flip_vjp(const VjpArgs<FlipAttrs>& args) { return {flip(args.grad(), args.attrs.dims)}; }
std::vector<Sample<FlipAttrs>> flip_samples() {
  return {{{op_samples::real({3, 4})}, {{0}}},
          {{op_samples::real({2, 3, 4})}, {{0, -1}}},
          {{op_samples::real({2, 3})}, {}},
          {{op_samples::real({5})}, {{-1}}}};
}
constexpr Op<FlipAttrs> flip_op =
    plain_op<FlipAttrs>("flip", Category::passthrough, flip_samples, flip_forward, flip_vjp, kSaveNothing);

// --- roll

struct RollAttrs {
  IntList shifts;
  Dims dims;
  MEZZO_FIELDS(RollAttrs, shifts, dims)
};
/// x rotated by `shift`, which may be anything, along a dim that has positions.
Tensor rolled(const Tensor& x, std::int64_t shift, std::int64_t dim) {
  const std::int64_t size = x.shape()[static_cast<std::size_t>(dim)];
  const std::int64_t start = (shift % size + size) % size;
  Tensor out = empty_like(x);
  copy_into(narrow(out, dim, start, size - start), narrow(x, dim, 0, size - start));
  copy_into(narrow(out, dim, 0, start), narrow(x, dim, size - start, start));
  return out;
}
Outputs roll_forward(const ForwardArgs<RollAttrs>& args) {
  const Tensor& x = args.in(0);
  const auto& [shifts, given] = args.attrs;
  Dims dims;
  for (const std::int64_t dim : given) dims.push_back(layout::wrap_dim("roll", dim, x.shape().size()));
  if (shifts.size() != std::max<std::size_t>(dims.size(), 1)) {
    throw ShapeError("roll", "a shift for each dim, or one without dims",
                     to_string(shifts) + " for dims " + to_string(given), "give lists of one length");
  }
  if (x.numel() <= 1) return clone(x);
  if (dims.empty()) {
    return alias(rolled(reshape(x, {-1}), shifts[0], 0), x.shape(), layout::contiguous_strides(x.shape()), 0,
                 false);
  }
  Tensor out = x;
  for (std::size_t i = 0; i < dims.size(); ++i) out = rolled(out, shifts[i], dims[i]);
  return out;
}
/// How many positions a shift turns over: those of its dim, or all elements.
std::int64_t turn(const Shape& shape, const Dims& dims, std::size_t i) {
  if (dims.empty()) return layout::numel(shape);
  if (shape.empty()) return 1;
  return shape[static_cast<std::size_t>(layout::wrap_dim("roll", dims[i], shape.size()))];
}
Gradients roll_vjp(const VjpArgs<RollAttrs>& args) {
  IntList back;
  for (std::size_t i = 0; i < args.attrs.shifts.size(); ++i) {
    const std::int64_t size = turn(args.in_shape(0), args.attrs.dims, i);
    back.push_back(size == 0 ? 0 : -(args.attrs.shifts[i] % size));
  }
  return {roll(args.grad(), back, args.attrs.dims)};
}
std::vector<Sample<RollAttrs>> roll_samples() {
  return {{{op_samples::real({5})}, {{2}, {0}}},
          {{op_samples::real({3, 4})}, {{1, -6}, {0, -1}}},
          {{op_samples::real({2, 3})}, {{1}, {}}},
          {{op_samples::real({2, 3})}, {{1, 1}, {1, 1}}}};
}
constexpr Op<RollAttrs> roll_op =
    plain_op<RollAttrs>("roll", Category::passthrough, roll_samples, roll_forward, roll_vjp, kSaveNothing);

// --- tril, triu

struct TriangleAttrs {
  std::int64_t diagonal = 0;
  MEZZO_FIELDS(TriangleAttrs, diagonal)
};
/// x where `keep` is not 0, else 0: not a product, which would keep NaN and infinity.
MEZZO_FUNCTOR(KeepFn, T, (T keep, T x), keep != T(0) ? x : T(0));
template <bool Lower>
Outputs triangle_forward(const ForwardArgs<TriangleAttrs>& args) {
  const std::string_view op = Lower ? "tril" : "triu";
  const Tensor& x = args.in(0);
  const std::size_t rank = x.shape().size();
  if (rank < 2) throw ShapeError(op, "at least 2 dims", to_string(x.shape()), "add dims with unsqueeze");
  const std::int64_t rows = x.shape()[rank - 2], columns = x.shape()[rank - 1];
  // Beyond the matrix all diagonals are alike.
  const std::int64_t diagonal = std::clamp(args.attrs.diagonal, -rows - 1, columns + 1);
  if (x.numel() == 0) return empty_like(x);
  const Tensor last = reshape(arange(diagonal, rows + diagonal, 1, {.device = x.device()}), {rows, 1});
  const Tensor column = arange(columns, {.device = x.device()});
  const Tensor keep = Lower ? le(column, last) : ge(column, last);
  return map<2>(op, KeepFn{}, {&keep, &x}, x.dtype(), x.dtype());
}
template <bool Lower>
Gradients triangle_vjp(const VjpArgs<TriangleAttrs>& args) {
  return {Lower ? tril(args.grad(), args.attrs.diagonal) : triu(args.grad(), args.attrs.diagonal)};
}
std::vector<Sample<TriangleAttrs>> triangle_samples() {
  return {{{op_samples::real({4, 4})}, {0}},
          {{op_samples::real({2, 3, 5})}, {1}},
          {{op_samples::real({4, 3})}, {-1}}};
}
constexpr Op<TriangleAttrs> tril_op =
    plain_op<TriangleAttrs>("tril", Category::passthrough, triangle_samples, triangle_forward<true>,
                            triangle_vjp<true>, kSaveNothing);
constexpr Op<TriangleAttrs> triu_op =
    plain_op<TriangleAttrs>("triu", Category::passthrough, triangle_samples, triangle_forward<false>,
                            triangle_vjp<false>, kSaveNothing);

const Registered rearrange_registered{flip_op, roll_op, tril_op, triu_op};

}  // namespace

Tensor flip(const Tensor& x, const Dims& dims) { return bind(flip_op, {x}, {dims}); }
Tensor roll(const Tensor& x, const IntList& shifts, const Dims& dims) {
  return bind(roll_op, {x}, {shifts, dims});
}
Tensor tril(const Tensor& x, std::int64_t diagonal) { return bind(tril_op, {x}, {diagonal}); }
Tensor triu(const Tensor& x, std::int64_t diagonal) { return bind(triu_op, {x}, {diagonal}); }

/// A limit, as every chunk of an empty dim is a tensor and takes memory.
constexpr std::int64_t kMostEmptyChunks = 1 << 20;

Tensors chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim) {
  require_defined("chunk", x);
  if (chunks < 1) throw ValueError("chunk", "at least 1 chunk", std::to_string(chunks), "ask for a piece");
  if (x.dim() == 0)
    throw IndexError("chunk", "a tensor with at least 1 dim", "a 0-dim tensor", "use reshape");
  const std::int64_t size =
      x.shape()[static_cast<std::size_t>(layout::wrap_dim("chunk", dim, x.shape().size()))];
  // An empty dim still gives as many pieces as asked for.
  if (size == 0 && chunks > kMostEmptyChunks) {
    throw ValueError("chunk",
                     "at most " + std::to_string(kMostEmptyChunks) + " chunks of a dim without elements",
                     std::to_string(chunks), "ask for fewer");
  }
  if (size == 0) return split(x, IntList(static_cast<std::size_t>(chunks), 0), dim);
  return split_evenly(x, (size - 1) / chunks + 1, dim);
}

Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination) {
  require_defined("movedim", x);
  if (source.size() != destination.size()) {
    throw ShapeError("movedim", "a destination for each source",
                     to_string(source) + " to " + to_string(destination), "give lists of one length");
  }
  const std::size_t rank = x.shape().size();
  if (source.empty() || rank == 0) {
    for (const Dims& list : {source, destination}) {
      if (!list.empty()) static_cast<void>(layout::wrap_dims("movedim", list, rank));
    }
    return identity(x);
  }
  static_cast<void>(layout::wrap_dims("movedim", source, rank));
  static_cast<void>(layout::wrap_dims("movedim", destination, rank));
  constexpr std::int64_t kOpen = -1;
  Dims order(rank, kOpen);
  Dims moved;
  for (std::size_t i = 0; i < source.size(); ++i) {
    moved.push_back(layout::wrap_dim("movedim", source[i], rank));
    order[static_cast<std::size_t>(layout::wrap_dim("movedim", destination[i], rank))] = moved.back();
  }
  std::int64_t next = 0;
  for (std::int64_t& dim : order) {
    if (dim != kOpen) continue;
    while (moved.contains(next)) ++next;
    dim = next++;
  }
  return permute(x, order);
}

Tensor diag(const Tensor& x, std::int64_t diagonal) {
  require_defined("diag", x);
  if (x.dim() == 2) return mezzo::diagonal(x, diagonal);
  if (x.dim() != 1) throw ShapeError("diag", "a vector or a matrix", to_string(x.shape()), "use diagonal");
  const std::int64_t size =
      x.numel() + std::abs(std::clamp(diagonal, -layout::kMaxElements, layout::kMaxElements));
  return diagonal_backward(x, {size, size}, diagonal, 0, 1);
}

Tensor tile(const Tensor& x, const Dims& reps) {
  require_defined("tile", x);
  Dims all(
      static_cast<std::size_t>(std::max<std::int64_t>(x.dim() - static_cast<std::int64_t>(reps.size()), 0)),
      1);
  for (const std::int64_t n : reps) all.push_back(n);
  return repeat(x, all);
}

namespace {
/// The tensors with dims of size 1 put in front until they have `dims`.
Tensors with_dims(std::string_view op, TensorList tensors, std::int64_t dims) {
  Tensors result;
  for (Tensor x : tensors) {
    require_defined(op, x);
    while (x.dim() < dims) x = unsqueeze(x, 0);
    result.push_back(x);
  }
  return result;
}
}  // namespace
Tensor hstack(TensorList tensors) {
  const Tensors all = with_dims("hstack", tensors, 1);
  return cat(all, all.empty() || all[0].dim() == 1 ? 0 : 1);
}
Tensor vstack(TensorList tensors) { return cat(with_dims("vstack", tensors, 2), 0); }

Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor) {
  require_defined("pixel_shuffle", x);
  const Shape& shape = x.shape();
  const std::int64_t r = upscale_factor;
  constexpr std::int64_t kMost = std::int64_t{1} << 28;  // its square fits
  if (r < 1 || r > kMost) {
    throw ValueError("pixel_shuffle", "a factor of at least 1", std::to_string(r), "choose a usual factor");
  }
  const std::size_t rank = shape.size();
  if (rank < 3 || shape[rank - 3] % (r * r) != 0) {
    throw ShapeError("pixel_shuffle", "a shape [..., C, H, W] with C divisible by " + std::to_string(r * r),
                     to_string(shape), "check the factor and the channels");
  }
  const std::int64_t channels = shape[rank - 3] / (r * r), height = shape[rank - 2], width = shape[rank - 1];
  Shape result = shape;
  std::int64_t outer = 1;  // everything in front, channels included
  for (std::size_t d = 0; d + 3 < rank; ++d) outer *= shape[d];
  result[rank - 3] = channels;
  result[rank - 2] = height * r;
  result[rank - 1] = width * r;
  const Tensor apart = reshape(x, {outer * channels, r, r, height, width});
  return reshape(permute(apart, {0, 3, 1, 4, 2}), result);
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> dim) {
  require_defined("repeat_interleave", x);
  if (repeats < 0) {
    throw ValueError("repeat_interleave", "a number of at least 0", std::to_string(repeats),
                     "use 0 for an empty result");
  }
  if (!dim || x.dim() == 0) {
    if (dim) static_cast<void>(layout::wrap_dim("repeat_interleave", *dim, 0));
    return repeat_interleave(flatten(x), repeats, 0);
  }
  Shape shape = x.shape();
  const auto at = static_cast<std::size_t>(layout::wrap_dim("repeat_interleave", *dim, shape.size()));
  std::int64_t outer = 1, inner = 1;  // the dims up to this one, and those behind
  for (std::size_t d = 0; d <= at; ++d) outer *= shape[d];
  for (std::size_t d = at + 1; d < shape.size(); ++d) inner *= shape[d];
  layout::checked_numel("repeat_interleave", {shape[at], repeats});
  shape[at] *= repeats;
  layout::checked_numel("repeat_interleave", shape);
  return reshape(expand(reshape(x, {outer, 1, inner}), {outer, repeats, inner}), shape);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> dim) {
  constexpr std::string_view kName = "repeat_interleave";
  require_defined(kName, x);
  require_defined(kName, repeats);
  if (!dim || x.dim() == 0) {
    if (dim) static_cast<void>(layout::wrap_dim(kName, *dim, 0));
    return repeat_interleave(flatten(x), repeats, 0);
  }
  const std::int64_t size =
      x.shape()[static_cast<std::size_t>(layout::wrap_dim(kName, *dim, x.shape().size()))];
  const Tensor counts = index_as_i64(kName, repeats, true).to(Device::cpu());
  const bool for_all = counts.numel() == 1;
  if (counts.dim() > 1 || (!for_all && counts.numel() != size)) {
    throw ShapeError(kName, std::to_string(size) + " numbers, or one", to_string(repeats.shape()),
                     "pass one for each position of the dim");
  }
  const auto* const values = static_cast<const std::int64_t*>(counts.impl().data());
  if (for_all) return repeat_interleave(x, values[0], dim);
  std::int64_t total = 0;
  for (std::int64_t k = 0; k < size; ++k) {
    if (values[k] < 0 || values[k] >= layout::kMaxElements) {
      throw ValueError(kName, "numbers of at least 0", std::to_string(values[k]), "use 0 to leave one out");
    }
    total += values[k];
    layout::checked_numel(kName, {total});
  }
  const Tensor positions = empty({total}, {.dtype = DType::i64});
  auto* next = static_cast<std::int64_t*>(positions.impl().data());
  for (std::int64_t k = 0; k < size; ++k) next = std::fill_n(next, values[k], k);
  return index_select(x, *dim, positions.to(x.device()));
}

}  // namespace mezzo
