// Views of diagonals and of windows, and the ops that take their gradients back.
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/shape/copy_into.h"

namespace mezzo {

namespace {

using namespace ops;

void check_gradient(std::string_view op, const Tensor& grad, const Shape& expected) {
  if (grad.shape() == expected) return;
  throw ShapeError(op, "a gradient of shape " + to_string(expected), to_string(grad.shape()),
                   "give it the shape of the view");
}

// --- diagonal

struct DiagonalAttrs {
  std::int64_t offset = 0, dim1 = 0, dim2 = 1;
  MEZZO_FIELDS(DiagonalAttrs, offset, dim1, dim2)
};
Tensor diagonal_of(std::string_view op, const Tensor& x, std::int64_t offset, std::int64_t dim1,
                   std::int64_t dim2) {
  Shape shape = x.shape();
  Dims strides = x.strides();
  const auto row = static_cast<std::size_t>(layout::wrap_dim(op, dim1, shape.size()));
  const auto column = static_cast<std::size_t>(layout::wrap_dim(op, dim2, shape.size()));
  if (row == column || shape.size() < 2) {
    throw ShapeError(op, "two different dims", std::to_string(dim1) + " and " + std::to_string(dim2),
                     "the tensor has shape " + to_string(shape));
  }
  // Beyond the matrix all offsets are alike: an empty diagonal.
  offset = std::clamp(offset, -shape[row], shape[column]);
  const std::int64_t first_row = std::max<std::int64_t>(-offset, 0);
  const std::int64_t first_column = std::max<std::int64_t>(offset, 0);
  const std::int64_t count =
      std::max<std::int64_t>(0, std::min(shape[row] - first_row, shape[column] - first_column));
  const std::int64_t stride = strides[row] + strides[column];
  const std::int64_t skipped =
      count == 0 || x.numel() == 0 ? 0 : first_row * strides[row] + first_column * strides[column];
  for (const std::size_t dim : {std::max(row, column), std::min(row, column)}) {
    shape.erase(dim);
    strides.erase(dim);
  }
  shape.push_back(count);
  strides.push_back(stride);
  return alias(x, shape, strides, x.impl().offset + skipped, true);
}
Outputs diagonal_forward(const ForwardArgs<DiagonalAttrs>& args) {
  return diagonal_of("diagonal", args.in(0), args.attrs.offset, args.attrs.dim1, args.attrs.dim2);
}
Gradients diagonal_vjp(const VjpArgs<DiagonalAttrs>& args) {
  return {
      diagonal_backward(args.grad(), args.in_shape(0), args.attrs.offset, args.attrs.dim1, args.attrs.dim2)};
}
std::vector<Sample<DiagonalAttrs>> diagonal_samples() {
  return {{{op_samples::real({4, 4})}, {}},
          {{op_samples::real({2, 3, 4})}, {1, -2, -1}},
          {{op_samples::real({3, 2, 4})}, {-2, 2, 0}},
          {{op_samples::real({2, 3})}, {3, 0, 1}}};
}
constexpr Op<DiagonalAttrs> diagonal_op =
    moving_op<DiagonalAttrs>("diagonal", diagonal_samples, diagonal_forward, diagonal_vjp);

using DiagonalBackwardAttrs = ViewBackwardAttrs<DiagonalAttrs>;
Outputs diagonal_backward_forward(const ForwardArgs<DiagonalBackwardAttrs>& args) {
  const DiagonalBackwardAttrs& attrs = args.attrs;
  layout::checked_numel("diagonal_backward", attrs.shape);
  Tensor out = zeros(attrs.shape, options_of(args.in(0)));
  const Tensor place = diagonal_of("diagonal_backward", out, attrs.offset, attrs.dim1, attrs.dim2);
  check_gradient("diagonal_backward", args.in(0), place.shape());
  copy_into(place, args.in(0));
  return out;
}
Gradients diagonal_backward_vjp(const VjpArgs<DiagonalBackwardAttrs>& args) {
  return {diagonal(args.grad(), args.attrs.offset, args.attrs.dim1, args.attrs.dim2)};
}
std::vector<Sample<DiagonalBackwardAttrs>> diagonal_backward_samples() {
  return {{{op_samples::real({2, 3})}, {{1, -2, -1}, {2, 3, 4}}},
          {{op_samples::real({3})}, {{-1, 0, 1}, {4, 3}}}};
}
constexpr Op<DiagonalBackwardAttrs> diagonal_backward_op =
    plain_op<DiagonalBackwardAttrs>("diagonal_backward", Category::passthrough, diagonal_backward_samples,
                                    diagonal_backward_forward, diagonal_backward_vjp, kSaveNothing);

// --- tensor_unfold

struct UnfoldAttrs {
  std::int64_t dim = 0, size = 1, step = 1;
  MEZZO_FIELDS(UnfoldAttrs, dim, size, step)
};
/// Where the windows are: the dim, and how many there are.
struct Windows {
  std::size_t dim;
  std::int64_t count;
};
/// `shape` has at least one dim.
Windows windows_of(std::string_view op, const Shape& shape, const UnfoldAttrs& attrs) {
  const auto dim = static_cast<std::size_t>(layout::wrap_dim(op, attrs.dim, shape.size()));
  if (attrs.size < 0 || attrs.size > shape[dim]) {
    throw ValueError(op, "a size in [0, " + std::to_string(shape[dim]) + "]", std::to_string(attrs.size),
                     "dim " + std::to_string(dim) + " has that many positions");
  }
  if (attrs.step < 1) {
    throw ValueError(op, "a step of at least 1", std::to_string(attrs.step), "use a positive step");
  }
  return {dim, (shape[dim] - attrs.size) / attrs.step + 1};
}
Shape with_dims(const Shape& shape) { return shape.empty() ? Shape{1} : shape; }

Tensor unfolded(const Tensor& x, const Windows& windows, const UnfoldAttrs& attrs) {
  if (x.dim() == 0) return alias(x, Shape{attrs.size}, Dims{1}, x.impl().offset, true);
  Shape shape = with_dims(x.shape());
  Dims strides = x.shape().empty() ? Dims{1} : x.strides();
  shape.push_back(attrs.size);
  strides.push_back(strides[windows.dim]);
  shape[windows.dim] = windows.count;
  strides[windows.dim] *= windows.count > 1 ? attrs.step : 1;  // a step over nothing may be huge
  return alias(x, shape, strides, x.impl().offset, true);
}
Outputs unfold_forward(const ForwardArgs<UnfoldAttrs>& args) {
  const Tensor& x = args.in(0);
  return unfolded(x, windows_of("tensor_unfold", with_dims(x.shape()), args.attrs), args.attrs);
}
Gradients unfold_vjp(const VjpArgs<UnfoldAttrs>& args) {
  const UnfoldAttrs& attrs = args.attrs;
  return {tensor_unfold_backward(args.grad(), args.in_shape(0), attrs.dim, attrs.size, attrs.step)};
}
std::vector<Sample<UnfoldAttrs>> unfold_samples() {
  return {{{op_samples::real({7})}, {0, 3, 2}},
          {{op_samples::real({2, 6})}, {-1, 2, 2}},
          {{op_samples::real({5, 3})}, {0, 3, 1}},
          {{op_samples::real({})}, {0, 1, 1}}};
}
constexpr Op<UnfoldAttrs> unfold_op =
    moving_op<UnfoldAttrs>("tensor_unfold", unfold_samples, unfold_forward, unfold_vjp);

using UnfoldBackwardAttrs = ViewBackwardAttrs<UnfoldAttrs>;
/// Position k of all windows at once: these never overlap, so they are added to a part of the sum.
Outputs unfold_backward_forward(const ForwardArgs<UnfoldBackwardAttrs>& args) {
  const Tensor& grad = args.in(0);
  const UnfoldAttrs& attrs = args.attrs;
  const Shape& shape = args.attrs.shape;
  layout::checked_numel("tensor_unfold_backward", shape);
  const Windows windows = windows_of("tensor_unfold_backward", with_dims(shape), attrs);
  const DType compute = compute_dtype(grad.dtype());
  const Tensor total = zeros(with_dims(shape), {.dtype = compute, .device = grad.device()});
  check_gradient("tensor_unfold_backward", grad,
                 shape.empty() ? Shape{attrs.size} : unfolded(total, windows, attrs).shape());
  if (grad.numel() != 0) {
    const auto along = static_cast<std::int64_t>(windows.dim);
    const std::int64_t reach = attrs.step < shape[windows.dim] ? (windows.count - 1) * attrs.step + 1 : 1;
    for (std::int64_t k = 0; k < attrs.size; ++k) {
      const Tensor place = slice(total, along, k, k + reach, attrs.step);
      kernels::pointwise(grad.device(), kernels::scalar::AddFn{}, view_of(place),
                         std::array{view_of(place), view_of(select(grad, -1, k))}, compute);
    }
  }
  Tensor sum = to(total, grad.dtype());
  return alias(sum, shape, layout::contiguous_strides(shape), 0, false);
}
Gradients unfold_backward_vjp(const VjpArgs<UnfoldBackwardAttrs>& args) {
  return {tensor_unfold(args.grad(), args.attrs.dim, args.attrs.size, args.attrs.step)};
}
std::vector<Sample<UnfoldBackwardAttrs>> unfold_backward_samples() {
  return {{{op_samples::real({3, 3})}, {{0, 3, 2}, {7}}},
          {{op_samples::real({3, 2, 3})}, {{-2, 3, 1}, {5, 2}}},
          {{op_samples::real({1})}, {{0, 1, 1}, {}}}};
}
constexpr Op<UnfoldBackwardAttrs> unfold_backward_op =
    plain_op<UnfoldBackwardAttrs>("tensor_unfold_backward", Category::passthrough, unfold_backward_samples,
                                  unfold_backward_forward, unfold_backward_vjp, kSaveNothing);

const Registered windows_registered{diagonal_op, diagonal_backward_op, unfold_op, unfold_backward_op};

}  // namespace

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  return bind(diagonal_op, {x}, {offset, dim1, dim2});
}
Tensor diagonal_backward(const Tensor& grad, const Shape& shape, std::int64_t offset, std::int64_t dim1,
                         std::int64_t dim2) {
  return bind(diagonal_backward_op, {grad}, {{offset, dim1, dim2}, shape});
}
Tensor tensor_unfold(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t step) {
  return bind(unfold_op, {x}, {dim, size, step});
}
Tensor tensor_unfold_backward(const Tensor& grad, const Shape& shape, std::int64_t dim, std::int64_t size,
                              std::int64_t step) {
  return bind(unfold_backward_op, {grad}, {{dim, size, step}, shape});
}

}  // namespace mezzo
