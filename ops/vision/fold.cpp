// Descriptors of unfold and fold, each the other's gradient: a copy out of a view that shows the blocks of a
// padded image, and the sums of such blocks.
#include "mezzo/ops/fold.h"

#include "mezzo/kernels/pool/pool.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/vision/pooling_common.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::real;

constexpr std::size_t kSpatial = 2;

struct UnfoldAttrs {
  Dims kernel_size = {}, dilation{1}, padding{0}, stride{1};
  MEZZO_FIELDS(UnfoldAttrs, kernel_size, dilation, padding, stride)
};
struct FoldAttrs : UnfoldAttrs {
  Dims output_size = {};
  MEZZO_FIELDS(FoldAttrs, kernel_size, dilation, padding, stride, output_size)
};

/// The blocks of an image of `size`.
kernels::Windows blocks(std::string_view op, const UnfoldAttrs& attrs, const Shape& size) {
  kernels::Windows windows{
      .input = window_sizes(size, 1),
      .kernel = window_sizes(per_dim(op, "kernel_size", attrs.kernel_size, kSpatial, 1), 1),
      .stride = window_sizes(per_dim(op, "stride", attrs.stride, kSpatial, 1), 1),
      .padding = window_sizes(per_dim(op, "padding", attrs.padding, kSpatial, 0), 0),
      .dilation = window_sizes(per_dim(op, "dilation", attrs.dilation, kSpatial, 1), 1)};
  for (std::size_t dim = windows.kDims - kSpatial; dim < windows.kDims; ++dim) {
    const std::int64_t reach = kernel_reach(windows.kernel[dim], windows.dilation[dim]);
    const std::int64_t padded = windows.input[dim] + 2 * windows.padding[dim];
    if (padded < reach) {
      throw ShapeError(op, "a kernel of at most " + std::to_string(padded) + ", the padded image",
                       std::to_string(reach), "pad more, or take a smaller kernel or dilation");
    }
    windows.output[dim] = (padded - reach) / windows.stride[dim] + 1;
  }
  // Their numbers are multiplied below; each must be one of a shape.
  layout::checked_numel(op, {windows.kernel[1], windows.kernel[2]});
  layout::checked_numel(op, {windows.output[1], windows.output[2]});
  return windows;
}

// --- unfold

/// The blocks of padded images [planes, height, width], as a view [planes, kernel, kernel, blocks, blocks].
Tensor blocks_in(const Tensor& images, const kernels::Windows& windows) {
  const Shape shape{images.size(0), windows.kernel[1], windows.kernel[2], windows.output[1],
                    windows.output[2]};
  Dims strides{images.strides()[0]};
  for (const auto& steps : {windows.dilation, windows.stride}) {
    for (const std::size_t dim : {1, 2}) {
      const bool moves = shape[strides.size()] > 1;  // a step over nothing may be huge
      strides.push_back(images.strides()[dim] * (moves ? steps[dim] : 1));
    }
  }
  return alias(images, shape, strides, images.impl().offset, true);
}

Outputs unfold_forward(const ForwardArgs<UnfoldAttrs>& args) {
  constexpr std::string_view kOp = "unfold";
  const Tensor& x = args.in(0);
  require_floating(kOp, x);
  require_images(kOp, x, kSpatial);
  const kernels::Windows windows = blocks(kOp, args.attrs, spatial_sizes(x.shape(), kSpatial));
  Shape images = x.shape();
  for (std::size_t d = 0; d < kSpatial; ++d) images.pop_back();
  Shape shape = images;
  layout::checked_numel(kOp, {shape.back(), windows.kernels()});
  shape.back() *= windows.kernels();
  shape.push_back(windows.outputs());
  layout::checked_numel(kOp, shape);
  if (layout::numel(shape) == 0) return empty(shape, {.dtype = x.dtype(), .device = x.device()});
  const std::int64_t rows = windows.padding[1], columns = windows.padding[2];
  const Tensor planes = reshape(x, {layout::numel(images), windows.input[1], windows.input[2]});
  const Tensor padded =
      rows + columns == 0 ? planes.contiguous() : pad(planes, {columns, columns, rows, rows});
  return reshape(blocks_in(padded, windows).contiguous(), shape);
}
Gradients unfold_vjp(const VjpArgs<UnfoldAttrs>& args) {
  const UnfoldAttrs& attrs = args.attrs;
  return {fold(args.grad(), spatial_sizes(args.in_shape(0), kSpatial),
               {attrs.kernel_size, attrs.dilation, attrs.padding, attrs.stride})};
}
std::vector<Sample<UnfoldAttrs>> unfold_samples() {
  return {{{real({2, 3, 4, 5})}, {{2}}},
          {{real({1, 2, 5, 6})}, {{3, 2}, {1, 2}, {1, 0}, {2, 1}}},
          {{real({2, 3, 4})}, {{1, 2}, {1}, {2}, {3, 2}}},
          {{real({0, 2, 3, 3})}, {{2}}}};
}
constexpr Op<UnfoldAttrs> unfold_op = plain_op<UnfoldAttrs>("unfold", Category::passthrough, unfold_samples,
                                                            unfold_forward, unfold_vjp, kSaveNothing);

// --- fold

void require_columns(std::string_view op, const Tensor& columns, const kernels::Windows& windows) {
  const Shape& shape = columns.shape();
  const bool has_rank = shape.size() == 2 || shape.size() == 3;
  const std::int64_t places = windows.kernels(), blocks = windows.outputs();
  if (has_rank && shape[shape.size() - 2] > 0 && shape[shape.size() - 2] % places == 0 &&
      shape.back() == blocks)
    return;
  const std::string dims = "C * " + std::to_string(places) + ", " + std::to_string(blocks) + "]";
  throw ShapeError(op, "columns [N, " + dims + " or [" + dims, to_string(shape),
                   "one row per place of the kernel and one column per block");
}

Outputs fold_forward(const ForwardArgs<FoldAttrs>& args) {
  constexpr std::string_view kOp = "fold";
  const Tensor& columns = args.in(0);
  require_floating(kOp, columns);
  const Dims size = per_dim(kOp, "output_size", args.attrs.output_size, kSpatial, 1);
  layout::checked_numel(kOp, size);
  const kernels::Windows windows = blocks(kOp, args.attrs, size);
  require_columns(kOp, columns, windows);
  Shape shape = columns.shape();
  shape.pop_back();
  shape.back() /= windows.kernels();
  const std::int64_t planes = layout::numel(shape);
  for (const std::int64_t one : size) shape.push_back(one);
  layout::checked_numel(kOp, shape);
  const Tensor x = empty(shape, {.dtype = columns.dtype(), .device = columns.device()});
  const Tensor in = columns.contiguous();
  if (x.numel() > 0) kernels::fold(x.device(), planes, windows, view_of(x), view_of(in));
  return x;
}
Gradients fold_vjp(const VjpArgs<FoldAttrs>& args) {
  const FoldAttrs& attrs = args.attrs;
  return {unfold(args.grad(), {attrs.kernel_size, attrs.dilation, attrs.padding, attrs.stride})};
}
std::vector<Sample<FoldAttrs>> fold_samples() {
  return {{{real({2, 12, 12})}, {{{2}}, {4, 5}}},
          {{real({1, 12, 12})}, {{{3, 2}, {1, 2}, {1, 0}, {2, 1}}, {5, 6}}},
          {{real({4, 12})}, {{{1, 2}, {1}, {2}, {3, 2}}, {4, 5}}},
          {{real({0, 8, 4})}, {{{2}}, {3}}}};
}
constexpr Op<FoldAttrs> fold_op =
    plain_op<FoldAttrs>("fold", Category::passthrough, fold_samples, fold_forward, fold_vjp, kSaveNothing);

const Registered fold_registered{unfold_op, fold_op};

}  // namespace

Tensor unfold(const Tensor& x, const FoldOptions& options) {
  return bind(unfold_op, {x}, {options.kernel_size, options.dilation, options.padding, options.stride});
}
Tensor fold(const Tensor& columns, const SpatialSizes& output_size, const FoldOptions& options) {
  return bind(fold_op, {columns},
              {{options.kernel_size, options.dilation, options.padding, options.stride}, output_size});
}

}  // namespace mezzo
