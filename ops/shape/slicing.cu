// Views of a part of a tensor along one dim, and the op that takes their gradients back.
#include "mezzo/ops/forward.h"
#include "mezzo/ops/shape.h"
#include "mezzo/ops/shape/copy_into.h"

namespace mezzo {

namespace {

using namespace ops;

/// A dim of a tensor with dims, as an index into its shape.
std::size_t existing_dim(std::string_view op, std::int64_t dim, const Shape& shape) {
  if (shape.empty()) {
    throw IndexError(op, "a tensor with at least 1 dim", "a 0-dim tensor", "use reshape or unsqueeze first");
  }
  return static_cast<std::size_t>(layout::wrap_dim(op, dim, shape.size()));
}

/// `count` indices of a dim from `start` on, `step` apart.
Tensor part(const Tensor& x, std::size_t dim, std::int64_t start, std::int64_t count, std::int64_t step) {
  Shape shape = x.shape();
  Dims strides = x.strides();
  // Without elements there may be no memory to point into.
  const std::int64_t skipped = layout::numel(shape) == 0 ? 0 : start * strides[dim];
  shape[dim] = count;
  strides[dim] *= count > 1 ? step : 1;  // a step over nothing may be huge
  return alias(x, shape, strides, x.impl().offset + skipped, true);
}

// --- slice

struct SliceAttrs {
  std::int64_t dim = 0;
  std::optional<std::int64_t> start, end;
  std::int64_t step = 1;
  MEZZO_FIELDS(SliceAttrs, dim, start, end, step)
};

struct Indices {
  std::int64_t start, count;
};
/// Python's rule: negative bounds count from the end, then everything is clamped.
Indices resolve(std::string_view op, std::int64_t size, std::optional<std::int64_t> start,
                std::optional<std::int64_t> end, std::int64_t step) {
  if (step < 1) throw ValueError(op, "a step of at least 1", std::to_string(step), "use a positive step");
  const auto clamped = [size](std::int64_t bound) {
    return std::clamp<std::int64_t>(bound < 0 ? bound + size : bound, 0, size);
  };
  const std::int64_t first = clamped(start.value_or(0));
  const std::int64_t last = clamped(end.value_or(size));
  return {first, last > first ? (last - first - 1) / step + 1 : 0};
}

Outputs slice_forward(const ForwardArgs<SliceAttrs>& args) {
  const Tensor& x = args.in(0);
  const SliceAttrs& attrs = args.attrs;
  const std::size_t dim = existing_dim("slice", attrs.dim, x.shape());
  const Indices indices = resolve("slice", x.shape()[dim], attrs.start, attrs.end, attrs.step);
  return part(x, dim, indices.start, indices.count, attrs.step);
}
Gradients slice_vjp(const VjpArgs<SliceAttrs>& args) {
  const SliceAttrs& attrs = args.attrs;
  return {slice_backward(args.grad(), args.in_shape(0), attrs.dim, attrs.start, attrs.end, attrs.step)};
}
std::vector<Sample<SliceAttrs>> slice_samples() {
  return {{{op_samples::real({5, 4})}, {0, 1, 4, 2}},
          {{op_samples::real({5, 4})}, {-1, -3, std::nullopt, 1}},
          {{op_samples::real({6})}, {0, 4, 2, 1}},
          {{op_samples::real({2, 3})}, {1, std::nullopt, 100, 2}}};
}
constexpr Op<SliceAttrs> slice_op = moving_op<SliceAttrs>("slice", slice_samples, slice_forward, slice_vjp);

// --- slice_backward

using SliceBackwardAttrs = ViewBackwardAttrs<SliceAttrs>;
Outputs slice_backward_forward(const ForwardArgs<SliceBackwardAttrs>& args) {
  const Tensor& grad = args.in(0);
  const SliceBackwardAttrs& attrs = args.attrs;
  layout::checked_numel("slice_backward", attrs.shape);
  const std::size_t dim = existing_dim("slice_backward", attrs.dim, attrs.shape);
  const Indices indices = resolve("slice_backward", attrs.shape[dim], attrs.start, attrs.end, attrs.step);
  Shape expected = attrs.shape;
  expected[dim] = indices.count;
  if (grad.shape() != expected) {
    throw ShapeError("slice_backward", "a gradient of shape " + to_string(expected), to_string(grad.shape()),
                     "give it the shape of the slice");
  }
  const Tensor out =
      zeros(attrs.shape,
            {.dtype = grad.dtype(), .device = grad.device(), .memory_format = grad.suggest_memory_format()});
  copy_into(part(out, dim, indices.start, indices.count, attrs.step), grad);
  return out;
}
Gradients slice_backward_vjp(const VjpArgs<SliceBackwardAttrs>& args) {
  return {slice(args.grad(), args.attrs.dim, args.attrs.start, args.attrs.end, args.attrs.step)};
}
std::vector<Sample<SliceBackwardAttrs>> slice_backward_samples() {
  return {{{op_samples::real({2, 4})}, {{0, 1, 4, 2}, {5, 4}}},
          {{op_samples::real({5, 3})}, {{-1, -3, std::nullopt, 1}, {5, 4}}}};
}
constexpr Op<SliceBackwardAttrs> slice_backward_op =
    plain_op<SliceBackwardAttrs>("slice_backward", Category::passthrough, slice_backward_samples,
                                 slice_backward_forward, slice_backward_vjp, kSaveNothing);

// --- select

struct SelectAttrs {
  std::int64_t dim = 0, index = 0;
  MEZZO_FIELDS(SelectAttrs, dim, index)
};
Outputs select_forward(const ForwardArgs<SelectAttrs>& args) {
  const Tensor& x = args.in(0);
  const std::size_t dim = existing_dim("select", args.attrs.dim, x.shape());
  const std::int64_t size = x.shape()[dim], index = args.attrs.index;
  if (index < -size || index >= size) {
    throw IndexError(
        "select",
        size == 0 ? std::string("a dim with elements")
                  : "an index in [" + std::to_string(-size) + ", " + std::to_string(size - 1) + "]",
        std::to_string(index), "dim " + std::to_string(dim) + " has size " + std::to_string(size));
  }
  const Tensor one = part(x, dim, index < 0 ? index + size : index, 1, 1);
  Shape shape = one.shape();
  Dims strides = one.strides();
  shape.erase(dim);
  strides.erase(dim);
  return alias(one, shape, strides, one.impl().offset, true);
}
Gradients select_vjp(const VjpArgs<SelectAttrs>& args) {
  const Shape& shape = args.in_shape(0);
  const std::int64_t dim = layout::wrap_dim("select", args.attrs.dim, shape.size());
  const std::int64_t index =
      args.attrs.index < 0 ? args.attrs.index + shape[static_cast<std::size_t>(dim)] : args.attrs.index;
  return {slice_backward(unsqueeze(args.grad(), dim), shape, dim, index, index + 1)};
}
std::vector<Sample<SelectAttrs>> select_samples() {
  return {{{op_samples::real({3, 4})}, {0, 1}}, {{op_samples::real({3, 4})}, {-1, -1}}};
}
constexpr Op<SelectAttrs> select_op =
    moving_op<SelectAttrs>("select", select_samples, select_forward, select_vjp);

// --- narrow

struct NarrowAttrs {
  std::int64_t dim = 0, start = 0, length = 0;
  MEZZO_FIELDS(NarrowAttrs, dim, start, length)
};
Outputs narrow_forward(const ForwardArgs<NarrowAttrs>& args) {
  const Tensor& x = args.in(0);
  const NarrowAttrs& attrs = args.attrs;
  const std::size_t dim = existing_dim("narrow", attrs.dim, x.shape());
  const std::int64_t size = x.shape()[dim];
  const std::int64_t start = attrs.start < 0 ? attrs.start + size : attrs.start;
  if (start < 0 || start > size || attrs.length < 0 || attrs.length > size - start) {
    throw IndexError("narrow",
                     "a range within dim " + std::to_string(dim) + " of size " + std::to_string(size),
                     "start " + std::to_string(attrs.start) + " and length " + std::to_string(attrs.length),
                     "use slice, which clamps");
  }
  return part(x, dim, start, attrs.length, 1);
}
Gradients narrow_vjp(const VjpArgs<NarrowAttrs>& args) {
  const NarrowAttrs& attrs = args.attrs;
  const Shape& shape = args.in_shape(0);
  const std::size_t dim = existing_dim("narrow", attrs.dim, shape);
  const std::int64_t start = attrs.start < 0 ? attrs.start + shape[dim] : attrs.start;
  return {slice_backward(args.grad(), shape, attrs.dim, start, start + attrs.length)};
}
std::vector<Sample<NarrowAttrs>> narrow_samples() {
  return {{{op_samples::real({5, 3})}, {0, 1, 3}}, {{op_samples::real({2, 5})}, {-1, -2, 2}}};
}
constexpr Op<NarrowAttrs> narrow_op =
    moving_op<NarrowAttrs>("narrow", narrow_samples, narrow_forward, narrow_vjp);

// --- split

/// One size stands for pieces of that size, several for the pieces themselves.
struct SplitAttrs {
  IntList sizes;
  std::int64_t dim = 0;
  MEZZO_FIELDS(SplitAttrs, sizes, dim)
};
void check_sizes(const IntList& sizes, std::int64_t size) {
  std::int64_t left = size;
  bool fits = true;
  for (const std::int64_t piece : sizes) {
    fits = fits && piece >= 0 && piece <= left;
    left -= fits ? piece : 0;
  }
  if (fits && left == 0) return;
  throw ShapeError("split", "sizes of at least 0 that add up to " + std::to_string(size), to_string(sizes),
                   "check the sizes and the dim");
}
IntList piece_sizes(const IntList& sizes, std::int64_t size) {
  if (sizes.size() != 1) {
    check_sizes(sizes, size);
    return sizes;
  }
  const std::int64_t each = sizes[0];
  if (each < 0 || (each == 0 && size > 0)) {
    throw ValueError("split", "a size of at least 1", std::to_string(each), "choose how long a piece is");
  }
  const std::int64_t count = size == 0 ? 1 : (size - 1) / each + 1;
  constexpr std::int64_t kMostPieces = std::int64_t{1} << 24;  // each is a tensor of its own
  if (count > kMostPieces) {
    throw ValueError("split", "at most " + std::to_string(kMostPieces) + " pieces", std::to_string(count),
                     "choose longer pieces");
  }
  IntList pieces(static_cast<std::size_t>(count), each);
  pieces.back() = size - (count - 1) * each;
  return pieces;
}
Outputs split_forward(const ForwardArgs<SplitAttrs>& args) {
  const Tensor& x = args.in(0);
  const std::size_t dim = existing_dim("split", args.attrs.dim, x.shape());
  Outputs pieces;
  std::int64_t start = 0;
  for (const std::int64_t size : piece_sizes(args.attrs.sizes, x.shape()[dim])) {
    pieces.push_back(part(x, dim, start, size, 1));
    start += size;
  }
  return pieces;
}
Gradients split_vjp(const VjpArgs<SplitAttrs>& args) {
  const std::size_t dim = existing_dim("split", args.attrs.dim, args.in_shape(0));
  const std::size_t count = piece_sizes(args.attrs.sizes, args.in_shape(0)[dim]).size();
  Tensors grads;
  for (std::size_t i = 0; i < count; ++i) grads.push_back(args.grad(i));
  return {count == 1 ? grads[0] : cat(grads, args.attrs.dim)};
}
std::vector<Sample<SplitAttrs>> split_samples() {
  return {{{op_samples::real({7, 2})}, {{3}, 0}}, {{op_samples::real({2, 6})}, {{1, 2, 3}, -1}}};
}
constexpr Op<SplitAttrs> split_op = moving_op<SplitAttrs>("split", split_samples, split_forward, split_vjp);

const Registered slicing_registered{slice_op, slice_backward_op, select_op, narrow_op, split_op};

}  // namespace

Tensor slice(const Tensor& x, std::int64_t dim, std::optional<std::int64_t> start,
             std::optional<std::int64_t> end, std::int64_t step) {
  return bind(slice_op, {x}, {dim, start, end, step});
}

Tensor slice_backward(const Tensor& grad, const Shape& shape, std::int64_t dim,
                      std::optional<std::int64_t> start, std::optional<std::int64_t> end, std::int64_t step) {
  return bind(slice_backward_op, {grad}, {{dim, start, end, step}, shape});
}

Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index) {
  return bind(select_op, {x}, {dim, index});
}

Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  return bind(narrow_op, {x}, {dim, start, length});
}

Tensors split(const Tensor& x, const IntList& sizes, std::int64_t dim) {
  require_defined("split", x);
  // A list of one is a list here, and not the size of every piece.
  if (sizes.size() == 1) check_sizes(sizes, x.shape()[existing_dim("split", dim, x.shape())]);
  return bind(split_op, {x}, {sizes, dim});
}

Tensors split_evenly(const Tensor& x, std::int64_t size, std::int64_t dim) {
  return bind(split_op, {x}, {{size}, dim});
}

Tensors unbind(const Tensor& x, std::int64_t dim) {
  Tensors parts = x.defined() && x.dim() > 0 && x.size(dim) == 0 ? Tensors() : split_evenly(x, 1, dim);
  for (Tensor& part : parts) part = select(part, dim, 0);
  return parts;
}

}  // namespace mezzo
