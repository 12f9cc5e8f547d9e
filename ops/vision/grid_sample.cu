// Descriptors of grid_sample and its backward op.
#include "mezzo/kernels/resample/grid_sample.h"

#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/vision/sampling_common.h"

namespace mezzo {

namespace {

using namespace ops;
using kernels::GridSampleShape;
using op_samples::real;

constexpr std::string_view kGridSample = "grid_sample", kGridSampleBackward = "grid_sample_backward";

struct GridSampleAttrs : GridSampleOptions {
  MEZZO_FIELDS(GridSampleAttrs, mode, padding_mode, align_corners)
};
/// Which gradients are returned, x's and the grid's in this order, and in which dtypes: by default the common
/// dtype of all inputs.
struct GridSampleBackwardAttrs : GridSampleAttrs {
  bool input = true, grid = true;
  std::optional<DType> input_dtype = {}, grid_dtype = {};
  MEZZO_FIELDS(GridSampleBackwardAttrs, mode, padding_mode, align_corners, input, grid, input_dtype,
               grid_dtype)
};

// --- checks, and tensors as the kernels take them

/// Throws unless x and grid fit together.
void require_grid(std::string_view op, const Tensor& x, const Tensor& grid) {
  require_floating(op, x);
  require_floating(op, grid);
  if (x.dim() != 4 && x.dim() != 5)
    throw ShapeError(op, "x [N, C, H, W] or [N, C, D, H, W]", to_string(x.shape()), "reshape it");
  if (grid.dim() != x.dim() || grid.size(-1) != x.dim() - 2 || grid.size(0) != x.size(0)) {
    const std::string batch = std::to_string(x.size(0));
    throw ShapeError(op, "a grid [" + batch + (x.dim() == 4 ? ", Ho, Wo, 2]" : ", Do, Ho, Wo, 3]"),
                     to_string(grid.shape()), "give each place of the result its coordinates");
  }
  for (const std::int64_t size : spatial_sizes(x.shape(), x.shape().size() - 2)) {
    if (size >= 1) continue;
    throw ShapeError(op, "x with spatial sizes of at least 1", to_string(x.shape()),
                     "there is nothing to sample");
  }
}

Shape result_shape(std::string_view op, const Tensor& x, const Tensor& grid) {
  Shape shape{x.size(0), x.size(1)};
  for (std::int64_t d = 1; d + 1 < grid.dim(); ++d) shape.push_back(grid.size(d));
  layout::checked_numel(op, shape);
  return shape;
}

GridSampleShape shape_of(const Tensor& x, const Tensor& grid, MemoryFormat format,
                         const GridSampleAttrs& attrs) {
  GridSampleShape shape;
  shape.batch = x.size(0);
  shape.channels = x.size(1);
  shape.places = 1;
  for (std::int64_t d = 1; d + 1 < grid.dim(); ++d) shape.places *= grid.size(d);
  shape.axes = static_cast<int>(grid.size(-1));
  for (std::int64_t a = 0; a < grid.size(-1); ++a) shape.sizes[static_cast<std::size_t>(a)] = x.size(-1 - a);
  shape.channels_last = format == MemoryFormat::channels_last;
  shape.rule = {attrs.mode, attrs.padding_mode, attrs.align_corners};
  return shape;
}

/// The layout in which the kernels take images like x: the CPU's loops go along channels.
MemoryFormat kernel_format(const Tensor& x) {
  return x.device().is_cpu() ? MemoryFormat::channels_last : x.suggest_memory_format();
}

// --- grid_sample

DType sampled_dtype(const ForwardArgs<GridSampleAttrs>& args) {
  const Tensor &x = args.in(0), &grid = args.in(1);
  require_grid(kGridSample, x, grid);
  if (x.dtype() == grid.dtype()) return x.dtype();
  throw DTypeError(kGridSample, "x and grid of one dtype",
                   to_string(x.dtype()) + " and " + to_string(grid.dtype()), "convert one of them with to()");
}

Outputs grid_sample_forward(const ForwardArgs<GridSampleAttrs>& args) {
  const DType dtype = sampled_dtype(args);
  const MemoryFormat format = kernel_format(args.in(0));
  const Tensor x = dense_in(args.in(0), format), grid = args.in(1).contiguous();
  const Tensor out = empty(result_shape(kGridSample, x, grid),
                           {.dtype = dtype, .device = x.device(), .memory_format = format});
  if (out.numel() > 0) {
    kernels::grid_sample(x.device(), shape_of(x, grid, format, args.attrs), view_of(out), view_of(x),
                         view_of(grid), compute_dtype(dtype));
  }
  return dense_in(out, args.in(0).suggest_memory_format());
}
Outputs grid_sample_reference(const ForwardArgs<GridSampleAttrs>& args) {
  const DType dtype = sampled_dtype(args), compute = compute_dtype(dtype);
  return to(composed_grid_sample(input_as(args, 0, compute), input_as(args, 1, compute), args.attrs), dtype);
}

Outputs grid_sample_backward(const Tensor& grad, const Tensor& x, const Tensor& grid,
                             const GridSampleBackwardAttrs& attrs);

Gradients grid_sample_vjp(const VjpArgs<GridSampleAttrs>& args) {
  GridSampleBackwardAttrs attrs{args.attrs};
  attrs.input = args.needs(0);
  attrs.grid = args.needs(1);
  attrs.input_dtype = args.wanted(0);
  attrs.grid_dtype = args.wanted(1);
  Outputs found = grid_sample_backward(args.grad(), args.in(0), args.in(1), attrs);
  Gradients gradients(2);
  if (attrs.input) gradients[0] = found[0];
  if (attrs.grid) gradients[1] = found[attrs.input ? 1 : 0];
  return gradients;
}

// Samples stay away from the kinks, which lie where positions are integers.
std::vector<Sample<GridSampleAttrs>> grid_sample_samples() {
  using enum GridSampleMode;
  using enum GridPadding;
  return {{{real({2, 3, 3, 5}), real({2, 2, 3, 2}, 0.42, 0.64)}, {}},
          {{real({2, 2, 3, 2}), real({2, 3, 1, 2}, 1.05, 1.45)}, {{bilinear, zeros, false}}},
          {{real({1, 2, 3, 3}), op_samples::smooth({1, 2, 4, 2})}, {{bilinear, border, true}}},
          {{real({1, 3, 2, 3}), real({1, 3, 2, 2}, 1.05, 1.45)}, {{bilinear, reflection, true}}},
          {{real({2, 1, 3, 5}), real({2, 2, 2, 2}, -1.36, -1.24)}, {{bilinear, reflection, false}}},
          {{real({1, 2, 3, 2, 3}), real({1, 2, 1, 3, 3}, 0.05, 0.62)}, {{bilinear, zeros, true}}},
          {{real({2, 2, 3, 4}), real({2, 3, 2, 2}, 0.36, 0.48)}, {{nearest, zeros, false}}},
          {{real({1, 2, 2, 2, 3}), real({1, 1, 2, 2, 3}, 0.1, 0.4)}, {{nearest, border, true}}}};
}
constexpr Op<GridSampleAttrs> grid_sample_op =
    fused_op<GridSampleAttrs>(kGridSample, Category::promote, grid_sample_samples, grid_sample_forward,
                              grid_sample_reference, grid_sample_vjp, save_inputs(0, 1));

// --- grid_sample_backward. Inputs: grad, x, grid

/// The dtype that the gradients are computed in.
DType checked_backward(const ForwardArgs<GridSampleBackwardAttrs>& args) {
  const Tensor &grad = args.in(0), &x = args.in(1), &grid = args.in(2);
  require_floating(kGridSampleBackward, grad);
  require_grid(kGridSampleBackward, x, grid);
  const Shape shape = result_shape(kGridSampleBackward, x, grid);
  if (grad.shape() != shape) {
    throw ShapeError(kGridSampleBackward, "a gradient " + to_string(shape), to_string(grad.shape()),
                     "pass the gradient of grid_sample's result");
  }
  const auto& attrs = args.attrs;
  if (!attrs.input && !attrs.grid)
    throw ValueError(kGridSampleBackward, "a gradient to compute", "none", "ask for input or grid");
  for (const std::optional<DType>& dtype : {attrs.input_dtype, attrs.grid_dtype}) {
    if (dtype && !is_floating(*dtype))
      throw DTypeError(kGridSampleBackward, "a floating dtype", to_string(*dtype), "use f32 or another");
  }
  return promote(grad.dtype(), promote(x.dtype(), grid.dtype()));
}

Outputs grid_sample_backward_forward(const ForwardArgs<GridSampleBackwardAttrs>& args) {
  const DType common = checked_backward(args), compute = compute_dtype(common);
  const auto& attrs = args.attrs;
  const MemoryFormat format = kernel_format(args.in(1));
  const Tensor grad = dense_in(args.in(0), format), x = dense_in(args.in(1), format);
  const Tensor grid = args.in(2).contiguous();
  const GridSampleShape shape = shape_of(x, grid, format, attrs);
  Outputs outputs;
  if (attrs.input) {
    const DType dtype = attrs.input_dtype.value_or(common);
    const Tensor dx = empty(x.shape(), {.dtype = dtype, .device = x.device(), .memory_format = format});
    if (x.numel() > 0)
      kernels::grid_sample_input_gradient(x.device(), shape, view_of(dx), view_of(grad), view_of(grid),
                                          compute);
    outputs.push_back(dense_in(dx, args.in(1).suggest_memory_format()));
  }
  if (!attrs.grid) return outputs;
  const TensorOptions options{.dtype = attrs.grid_dtype.value_or(common), .device = x.device()};
  const bool moves = attrs.mode != GridSampleMode::nearest && grid.numel() > 0 && x.size(1) > 0;
  outputs.push_back(moves ? empty(grid.shape(), options) : zeros(grid.shape(), options));
  if (moves) {
    kernels::grid_sample_grid_gradient(x.device(), shape, view_of(outputs.back()), view_of(grad), view_of(x),
                                       view_of(grid), compute);
  }
  return outputs;
}

Outputs grid_sample_backward_reference(const ForwardArgs<GridSampleBackwardAttrs>& args) {
  const DType common = checked_backward(args), compute = compute_dtype(common);
  const auto& attrs = args.attrs;
  const Tensors inputs{input_as(args, 1, compute), input_as(args, 2, compute)};
  const auto sampled = [&](const Tensors& own) -> Outputs {
    return composed_grid_sample(own[0], own[1], attrs);
  };
  Outputs outputs = composed_gradients(inputs, std::array<bool, 2>{attrs.input, attrs.grid},
                                       {input_as(args, 0, compute)}, sampled);
  if (attrs.input) outputs[0] = to(outputs[0], attrs.input_dtype.value_or(common));
  // The nearest place has no slope.
  if (attrs.grid && !outputs.back().defined()) outputs.back() = zeros_like(inputs[1]);
  if (attrs.grid) outputs.back() = to(outputs.back(), attrs.grid_dtype.value_or(common));
  return outputs;
}

std::vector<Sample<GridSampleBackwardAttrs>> grid_sample_backward_samples() {
  using enum GridSampleMode;
  using enum GridPadding;
  return {{{real({2, 2, 1, 2}), real({2, 2, 3, 3}), real({2, 1, 2, 2}, 0.42, 0.64)}, {}},
          {{real({1, 1, 2, 2}), real({1, 1, 3, 3}), op_samples::smooth({1, 2, 2, 2})},
           {{{bilinear, border, true}}, true, false}},
          {{real({1, 2, 2, 1}), real({1, 2, 2, 3}), real({1, 2, 1, 2}, 1.05, 1.45)},
           {{{bilinear, reflection, true}}, false, true}},
          {{real({1, 1, 1, 2, 1}), real({1, 1, 3, 2, 3}), real({1, 1, 2, 1, 3}, 0.05, 0.62)},
           {{{bilinear, zeros, true}}}},
          {{real({1, 2, 2, 1}), real({1, 2, 3, 4}), real({1, 2, 1, 2}, 0.36, 0.48)},
           {{{nearest, zeros, false}}}}};
}
constexpr Op<GridSampleBackwardAttrs> grid_sample_backward_op =
    gradient_op<GridSampleBackwardAttrs>(kGridSampleBackward, grid_sample_backward_samples,
                                         grid_sample_backward_forward, grid_sample_backward_reference);

Outputs grid_sample_backward(const Tensor& grad, const Tensor& x, const Tensor& grid,
                             const GridSampleBackwardAttrs& attrs) {
  return bind(grid_sample_backward_op, {grad, x, grid}, attrs);
}

const Registered grid_sample_registered{grid_sample_op, grid_sample_backward_op};

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  return bind(grid_sample_op, {x, grid}, GridSampleAttrs{options});
}

}  // namespace mezzo
