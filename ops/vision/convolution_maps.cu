// The three maps of convolution_common.h: their descriptors, and how tensors reach the kernels.
#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/shape/copy_into.h"
#include "mezzo/ops/vision/convolution_common.h"

namespace mezzo {
namespace ops {
namespace {

using op_samples::absent;
using op_samples::real;

// --- tensors as the kernels take them

/// x or y with a batch dim.
Tensor with_batch(const Tensor& x, std::size_t spatial) {
  if (x.shape().size() == spatial + 2) return x;
  Shape shape{1};
  Dims strides{0};
  for (const std::int64_t size : x.shape()) shape.push_back(size);
  for (const std::int64_t stride : x.strides()) strides.push_back(stride);
  if (layout::is_contiguous(x.shape(), x.strides())) strides = layout::contiguous_strides(shape);
  return alias(x, shape, strides, x.impl().offset, false);
}
Tensor without_batch(const Tensor& x) {
  Shape shape;
  Dims strides;
  for (std::size_t d = 1; d < x.shape().size(); ++d) {
    shape.push_back(x.shape()[d]);
    strides.push_back(x.strides()[d]);
  }
  return alias(x, shape, strides, x.impl().offset, false);
}

/// [N, C, spatial...] with 3 spatial dims. Dense x: a dim of size 1 changes nothing about that.
kernels::View five_dims(const Tensor& x) {
  kernels::View view = view_of(x);
  while (view.shape.size() < 5) {
    view.shape.insert(2, 1);
    view.strides.insert(2, 0);
  }
  return view;
}

kernels::Windows windows_of(const ConvolutionAttrs& attrs, const Shape& input, const Shape& kernel,
                            const Shape& output) {
  return {window_sizes(input, 1),        window_sizes(kernel, 1),        window_sizes(output, 1),
          window_sizes(attrs.stride, 1), window_sizes(attrs.padding, 0), window_sizes(attrs.dilation, 1)};
}

/// [N, C, spatial...]
Shape image(std::int64_t batch, std::int64_t channels, const Shape& spatial) {
  Shape shape{batch, channels};
  for (const std::int64_t size : spatial) shape.push_back(size);
  return shape;
}

Tensor parameter(const Tensor& bias, DType dtype) {
  return bias.defined() ? to(bias, dtype).contiguous() : Tensor();
}
/// Results without a product: every place of a channel is its bias, or 0.
void fill_channels(const Tensor& y, const Tensor& bias) {
  if (!bias.defined()) {
    y.zero_();
    return;
  }
  Dims strides(y.shape().size(), 0);
  strides[1] = 1;
  copy_into(y, alias(bias, y.shape(), strides, bias.impl().offset, false));
}
void* data_or_null(const Tensor& tensor) { return tensor.defined() ? tensor.impl().data() : nullptr; }

}  // namespace

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionAttrs& attrs,
                DType result) {
  const std::size_t spatial = attrs.size.size();
  const Tensor batched = with_batch(x, spatial);
  const MemoryFormat format = layout::format_of(batched.shape(), batched.strides());
  const Tensor input = dense_in(batched, format), w = weight.contiguous();
  const Tensor y = empty(image(input.size(0), w.size(0), attrs.size),
                         {.dtype = result, .device = x.device(), .memory_format = format});
  const kernels::ConvShape shape{input.size(0),
                                 input.size(1),
                                 w.size(0),
                                 attrs.groups,
                                 format == MemoryFormat::channels_last,
                                 windows_of(attrs, spatial_sizes(input.shape(), spatial),
                                            spatial_sizes(w.shape(), spatial), attrs.size)};
  const Tensor b = parameter(bias, result);
  if (y.numel() > 0 && (input.numel() == 0 || w.numel() == 0))
    fill_channels(y, b);
  else if (y.numel() > 0)
    kernels::conv_forward(y.device(), shape, five_dims(y), five_dims(input), five_dims(w), data_or_null(b));
  return x.shape().size() == spatial + 2 ? y : without_batch(y);
}

Tensor convolve_transposed(const Tensor& y, const Tensor& weight, const Tensor& bias,
                           const ConvolutionAttrs& attrs, DType result) {
  const std::size_t spatial = attrs.size.size();
  const Tensor batched = with_batch(y, spatial);
  const MemoryFormat format = layout::format_of(batched.shape(), batched.strides());
  const Tensor grad = dense_in(batched, format), w = weight.contiguous();
  const Tensor x = empty(image(grad.size(0), w.size(1) * attrs.groups, attrs.size),
                         {.dtype = result, .device = y.device(), .memory_format = format});
  const kernels::ConvShape shape{
      grad.size(0),
      x.size(1),
      w.size(0),
      attrs.groups,
      format == MemoryFormat::channels_last,
      windows_of(attrs, attrs.size, spatial_sizes(w.shape(), spatial), spatial_sizes(grad.shape(), spatial))};
  const Tensor b = parameter(bias, result);
  if (x.numel() > 0 && (grad.numel() == 0 || w.numel() == 0))
    fill_channels(x, b);
  else if (x.numel() > 0)
    kernels::conv_input_gradient(x.device(), shape, five_dims(x), five_dims(grad), five_dims(w),
                                 data_or_null(b));
  return y.shape().size() == spatial + 2 ? x : without_batch(x);
}

namespace {

Tensor weight_gradient(const Tensor& y, const Tensor& x, const ConvolutionAttrs& attrs, DType result) {
  const std::size_t spatial = attrs.size.size();
  const Tensor batched = with_batch(x, spatial);
  const MemoryFormat format = layout::format_of(batched.shape(), batched.strides());
  const Tensor input = dense_in(batched, format), grad = dense_in(with_batch(y, spatial), format);
  Tensor w = empty(image(grad.size(1), input.size(1) / attrs.groups, attrs.size),
                   {.dtype = result, .device = x.device()});
  const kernels::ConvShape shape{input.size(0),
                                 input.size(1),
                                 grad.size(1),
                                 attrs.groups,
                                 format == MemoryFormat::channels_last,
                                 windows_of(attrs, spatial_sizes(input.shape(), spatial), attrs.size,
                                            spatial_sizes(grad.shape(), spatial))};
  if (input.numel() == 0 || grad.numel() == 0 || w.numel() == 0)
    w.zero_();
  else
    kernels::conv_weight_gradient(w.device(), shape, five_dims(w), five_dims(input), five_dims(grad));
  return w;
}

// --- checks

void require_lists(std::string_view op, const ConvolutionAttrs& attrs) {
  const std::size_t spatial = attrs.size.size();
  if (spatial < 1 || spatial > kernels::Windows::kDims)
    throw ValueError(op, "1 to 3 spatial sizes", to_string(attrs.size), "pass size");
  for (const auto& [what, list, least] :
       {std::tuple{"strides", &attrs.stride, 1}, std::tuple{"padding", &attrs.padding, 0},
        std::tuple{"dilations", &attrs.dilation, 1}}) {
    if (list->size() != spatial)
      throw ValueError(op, std::to_string(spatial) + " " + what, to_string(*list), "give one per dim");
    static_cast<void>(per_dim(op, what, *list, spatial, least));
  }
  layout::checked_numel(op, attrs.size);
}

void require_kernel(std::string_view op, const Tensor& weight, const ConvolutionAttrs& attrs) {
  require_dims(op, "a weight", weight, static_cast<std::int64_t>(attrs.size.size()) + 2);
  require_groups(op, "output channels", weight.size(0), attrs.groups);
}

/// Throws unless a kernel's last position in the last of `outputs` windows stays in x's reach: below its size
/// plus as much padding as there is in front, and one stride.
void require_windows(std::string_view op, const ConvolutionAttrs& attrs, const Shape& input,
                     const Shape& kernel, const Shape& output) {
  for (std::size_t d = 0; d < attrs.size.size(); ++d) {
    const std::int64_t reach = kernel_reach(kernel[d], attrs.dilation[d]);
    const std::int64_t padded =
        input[d] + 2 * attrs.padding[d] + (reach - 1) % 2;  // "same" pads one more behind
    const std::int64_t most = padded < reach ? 0 : (padded - reach) / attrs.stride[d] + 1;
    if (kernel[d] >= 1 && output[d] <= most) continue;
    throw ShapeError(op, "at most " + std::to_string(most) + " windows in dim " + std::to_string(d),
                     std::to_string(output[d]), "take the sizes of the convolution it belongs to");
  }
}

// --- convolution_forward. Inputs: x, weight, bias

Outputs convolution_map_forward(const ForwardArgs<ConvolutionAttrs>& args) {
  constexpr std::string_view kOp = "convolution_forward";
  const Tensor &x = args.in(0), &weight = args.in(1), &bias = args.in(2);
  const ConvolutionAttrs& attrs = args.attrs;
  require_lists(kOp, attrs);
  require_floating(kOp, x);
  require_kernel(kOp, weight, attrs);
  const std::size_t spatial = attrs.size.size();
  require_image(kOp, "an input", x, spatial, weight.size(1) * attrs.groups);
  require_windows(kOp, attrs, spatial_sizes(x.shape(), spatial), spatial_sizes(weight.shape(), spatial),
                  attrs.size);
  if (bias.defined() && bias.shape() != Shape{weight.size(0)}) {
    throw ShapeError(kOp, "a bias " + to_string(Shape{weight.size(0)}), to_string(bias.shape()),
                     "give it one element per output channel");
  }
  return convolve(x, weight, bias, attrs, product_dtype(kOp, x, weight, attrs.dtype));
}

Gradients convolution_map_vjp(const VjpArgs<ConvolutionAttrs>& args) {
  const Tensor g = args.grad();
  Gradients result{Tensor(), Tensor(), Tensor()};
  const std::size_t spatial = args.attrs.size.size();
  if (args.needs(0))
    result[0] =
        convolution_backward_input(g, args.in(1), with_size(args.attrs, args.in_shape(0), args.wanted(0)));
  if (args.needs(1))
    result[1] =
        convolution_backward_weight(g, args.in(0), with_size(args.attrs, args.in_shape(1), args.wanted(1)));
  if (args.needs(2)) result[2] = channel_sums(g, spatial, args.wanted(2));
  return result;
}

ConvolutionAttrs sizes(const Dims& stride, const Dims& padding, const Dims& dilation, std::int64_t groups,
                       const Shape& size) {
  return {stride, padding, dilation, groups, size, {}};
}
std::vector<Sample<ConvolutionAttrs>> map_samples() {
  return {{{real({2, 4, 7}), real({6, 2, 3}), real({6})}, sizes({2}, {1}, {1}, 2, {4})},
          {{real({3, 5, 4}), real({2, 3, 2, 3}), absent()}, sizes({1, 2}, {0, 2}, {2, 1}, 1, {3, 3})}};
}
constexpr Op<ConvolutionAttrs> map_op = plain_op<ConvolutionAttrs>(
    "convolution_forward", Category::passthrough, map_samples, convolution_map_forward, convolution_map_vjp,
    save_factors(0, 1), tensor_set(2));

// --- convolution_backward_input. Inputs: grad, weight

Outputs input_forward(const ForwardArgs<ConvolutionAttrs>& args) {
  constexpr std::string_view kOp = "convolution_backward_input";
  const Tensor &grad = args.in(0), &weight = args.in(1);
  const ConvolutionAttrs& attrs = args.attrs;
  require_lists(kOp, attrs);
  require_floating(kOp, grad);
  require_kernel(kOp, weight, attrs);
  const std::size_t spatial = attrs.size.size();
  require_image(kOp, "a gradient", grad, spatial, weight.size(0));
  require_windows(kOp, attrs, attrs.size, spatial_sizes(weight.shape(), spatial),
                  spatial_sizes(grad.shape(), spatial));
  return convolve_transposed(grad, weight, {}, attrs, product_dtype(kOp, grad, weight, attrs.dtype));
}

Gradients input_vjp(const VjpArgs<ConvolutionAttrs>& args) {
  const Tensor c = args.grad();  // in place of x
  Gradients result{Tensor(), Tensor()};
  if (args.needs(0))
    result[0] =
        convolution_forward(c, args.in(1), {}, with_size(args.attrs, args.in_shape(0), args.wanted(0)));
  if (args.needs(1))
    result[1] =
        convolution_backward_weight(args.in(0), c, with_size(args.attrs, args.in_shape(1), args.wanted(1)));
  return result;
}

std::vector<Sample<ConvolutionAttrs>> input_samples() {
  return {{{real({2, 6, 4}), real({6, 2, 3})}, sizes({2}, {1}, {1}, 2, {7})},
          {{real({2, 3, 3}), real({2, 3, 2, 3})}, sizes({1, 2}, {0, 2}, {2, 1}, 1, {5, 4})}};
}
constexpr Op<ConvolutionAttrs> input_op =
    plain_op<ConvolutionAttrs>("convolution_backward_input", Category::passthrough, input_samples,
                               input_forward, input_vjp, save_factors(0, 1));

// --- convolution_backward_weight. Inputs: grad, x

Outputs weight_forward(const ForwardArgs<ConvolutionAttrs>& args) {
  constexpr std::string_view kOp = "convolution_backward_weight";
  const Tensor &grad = args.in(0), &x = args.in(1);
  const ConvolutionAttrs& attrs = args.attrs;
  require_lists(kOp, attrs);
  require_floating(kOp, grad);
  const std::size_t spatial = attrs.size.size();
  const auto channels_of = [&](const Tensor& tensor) {
    return tensor.shape().size() > spatial ? tensor.shape()[tensor.shape().size() - spatial - 1] : 0;
  };
  require_image(kOp, "a gradient", grad, spatial, channels_of(grad));
  require_image(kOp, "an input", x, spatial, channels_of(x));
  require_groups(kOp, "output channels", channels_of(grad), attrs.groups);
  require_groups(kOp, "input channels", channels_of(x), attrs.groups);
  if (grad.dim() != x.dim() || (x.shape().size() == spatial + 2 && x.size(0) != grad.size(0))) {
    throw ShapeError(kOp, "a gradient and an input of one batch",
                     to_string(grad.shape()) + " and " + to_string(x.shape()),
                     "pass the gradient of that input's result");
  }
  require_windows(kOp, attrs, spatial_sizes(x.shape(), spatial), attrs.size,
                  spatial_sizes(grad.shape(), spatial));
  return weight_gradient(grad, x, attrs, product_dtype(kOp, grad, x, attrs.dtype));
}

Gradients weight_vjp(const VjpArgs<ConvolutionAttrs>& args) {
  const Tensor c = args.grad();  // in place of the weight
  Gradients result{Tensor(), Tensor()};
  if (args.needs(0))
    result[0] =
        convolution_forward(args.in(1), c, {}, with_size(args.attrs, args.in_shape(0), args.wanted(0)));
  if (args.needs(1))
    result[1] =
        convolution_backward_input(args.in(0), c, with_size(args.attrs, args.in_shape(1), args.wanted(1)));
  return result;
}

std::vector<Sample<ConvolutionAttrs>> weight_samples() {
  return {{{real({2, 6, 4}), real({2, 4, 7})}, sizes({2}, {1}, {1}, 2, {3})},
          {{real({2, 3, 3}), real({3, 5, 4})}, sizes({1, 2}, {0, 2}, {2, 1}, 1, {2, 3})}};
}
constexpr Op<ConvolutionAttrs> weight_op =
    plain_op<ConvolutionAttrs>("convolution_backward_weight", Category::passthrough, weight_samples,
                               weight_forward, weight_vjp, save_factors(0, 1));

const Registered convolution_maps_registered{map_op, input_op, weight_op};

}  // namespace

Tensor convolution_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const ConvolutionAttrs& attrs) {
  return bind(map_op, {x, weight, bias}, attrs);
}
Tensor convolution_backward_input(const Tensor& grad, const Tensor& weight, const ConvolutionAttrs& attrs) {
  return bind(input_op, {grad, weight}, attrs);
}
Tensor convolution_backward_weight(const Tensor& grad, const Tensor& x, const ConvolutionAttrs& attrs) {
  return bind(weight_op, {grad, x}, attrs);
}

ConvolutionAttrs with_size(const ConvolutionAttrs& attrs, const Shape& shape, DType dtype) {
  ConvolutionAttrs result = attrs;
  result.size = spatial_sizes(shape, attrs.size.size());
  result.dtype = dtype;
  return result;
}

Tensor channel_sums(const Tensor& x, std::size_t spatial, DType dtype) {
  Dims over;
  const auto channel = x.shape().size() - spatial - 1;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (d != channel) over.push_back(static_cast<std::int64_t>(d));
  }
  return sum(x, over, false, dtype);
}

void require_image(std::string_view op, std::string_view what, const Tensor& x, std::size_t spatial,
                   std::int64_t channels) {
  const std::size_t rank = x.shape().size();
  const bool fits = rank == spatial + 1 || rank == spatial + 2;
  if (fits && x.shape()[rank - spatial - 1] == channels) return;
  std::string dims = std::to_string(channels);
  for (std::size_t i = 0; i < spatial; ++i) dims += ", " + std::string(1, "dhw"[3 - spatial + i]);
  throw ShapeError(op, std::string(what) + " [N, " + dims + "] or [" + dims + "]", to_string(x.shape()),
                   fits ? "check weight and groups: channels are in dim 1" : "one dim per spatial size");
}

void require_groups(std::string_view op, std::string_view what, std::int64_t channels, std::int64_t groups) {
  if (groups < 1) throw ValueError(op, "at least 1 group", std::to_string(groups), "use groups = 1");
  if (channels % groups == 0) return;
  throw ShapeError(op, std::string(what) + " divisible by groups = " + std::to_string(groups),
                   std::to_string(channels), "choose groups that divides it");
}

}  // namespace ops
}  // namespace mezzo
