// The shared half of the poolings, see pooling_common.h.
#include "mezzo/ops/vision/pooling_common.h"

namespace mezzo::ops {

namespace {

/// A window must have a place in the input. Without dilation, all have: padding is at most half the kernel.
void require_places(std::string_view op, const kernels::Windows& windows, std::size_t dim) {
  const std::int64_t step = windows.dilation[dim];
  if (windows.input[dim] >= step) return;
  // Windows that begin in the padding come back to the same places after `step` of them at the latest.
  const std::int64_t count = std::min(windows.output[dim], step);
  for (std::int64_t o = 0; o < count && windows.position(dim, o, 0) < 0; ++o) {
    const std::int64_t behind = -windows.position(dim, o, 0);
    const std::int64_t first = (step - behind % step) % step;
    if (first < windows.input[dim]) continue;
    throw ShapeError(op, "windows with a place in the input",
                     "window " + std::to_string(o) + " has all in the padding of an input of " +
                         std::to_string(windows.input[dim]),
                     "take less padding or dilation");
  }
}

/// The number of windows along a dim of size `input`.
std::int64_t window_count(std::string_view op, const kernels::Windows& windows, std::size_t dim,
                          bool ceil_mode) {
  const std::int64_t input = windows.input[dim], stride = windows.stride[dim], padding = windows.padding[dim];
  const std::int64_t reach = kernel_reach(windows.kernel[dim], windows.dilation[dim]);
  const std::int64_t left = input + 2 * padding - reach;  // for windows to move
  std::int64_t count = left < 0 ? 0 : left / stride + 1;
  if (ceil_mode) {
    const std::int64_t rest = left < 0 ? left + stride : left % stride;
    if (left < 0 ? rest > 0 : rest != 0) ++count;
    if (count > 0 && (count - 1) * stride >= input + padding) --count;
  }
  if (count > 0) return count;
  throw ShapeError(op, "a kernel of at most " + std::to_string(input + 2 * padding) + ", the padded input",
                   std::to_string(reach), "pad more, or take a smaller kernel or dilation");
}

}  // namespace

void require_images(std::string_view op, const Tensor& x, std::size_t spatial, Channels channels) {
  const Shape& shape = x.shape();
  const bool batched = shape.size() == spatial + 2;
  bool fits = batched || shape.size() == spatial + 1;
  const std::size_t first = (batched ? 1 : 0) + (channels == Channels::may_be_none ? 1 : 0);
  for (std::size_t d = first; fits && d < shape.size(); ++d) fits = shape[d] > 0;
  if (fits) return;
  std::string dims = "C";
  for (std::size_t i = 0; i < spatial; ++i) dims += ", " + std::string(1, "DHW"[3 - spatial + i]);
  throw ShapeError(op, "an input [N, " + dims + "] or [" + dims + "] where only N may be 0", to_string(shape),
                   "one dim per spatial size, none of them empty");
}

Shape with_spatial_sizes(Shape shape, std::span<const std::int64_t> sizes) {
  std::copy(sizes.begin(), sizes.end(), shape.end() - sizes.size());
  return shape;
}

kernels::Windows pool_windows(std::string_view op, const PoolAttrs& attrs, const Dims& dilation,
                              const Shape& sizes) {
  const std::size_t spatial = sizes.size();
  const Dims kernel = per_dim(op, "kernel_size", attrs.kernel_size, spatial, 1);
  const Dims stride = attrs.stride.empty() ? kernel : per_dim(op, "stride", attrs.stride, spatial, 1);
  const Dims padding = per_dim(op, "padding", attrs.padding, spatial, 0);
  for (std::size_t d = 0; d < spatial; ++d) {
    if (padding[d] <= kernel[d] / 2) continue;
    throw ValueError(op, "padding of at most half the kernel, " + std::to_string(kernel[d] / 2),
                     std::to_string(padding[d]), "use pad for more");
  }
  kernels::Windows windows{.input = window_sizes(sizes, 1),
                           .kernel = window_sizes(kernel, 1),
                           .stride = window_sizes(stride, 1),
                           .padding = window_sizes(padding, 0),
                           .dilation = window_sizes(per_dim(op, "dilation", dilation, spatial, 1), 1)};
  for (std::size_t dim = windows.kDims - spatial; dim < windows.kDims; ++dim) {
    windows.output[dim] = window_count(op, windows, dim, attrs.ceil_mode);
    require_places(op, windows, dim);
  }
  return windows;
}

kernels::Windows adaptive_windows(std::string_view op, const AdaptivePoolAttrs& attrs, const Shape& sizes) {
  const Dims output = per_dim(op, "output_size", attrs.output_size, sizes.size(), 0);
  return {.input = window_sizes(sizes, 1), .output = window_sizes(output, 1)};
}

AdaptivePoolAttrs adaptive_attrs(const Tensor& x, const AdaptiveSizes& sizes, std::size_t spatial) {
  AdaptivePoolAttrs attrs{sizes.size() == 1 ? Dims(spatial, sizes[0]) : Dims(sizes)};
  if (!x.defined() || x.shape().size() < spatial || attrs.output_size.size() != spatial) return {sizes};
  const Shape kept = spatial_sizes(x.shape(), spatial);
  for (std::size_t i = 0; i < spatial; ++i) {
    if (attrs.output_size[i] == kKeepSize) attrs.output_size[i] = kept[i];
  }
  return attrs;
}

std::span<const std::int64_t> sizes_of(const kernels::Windows::Sizes& sizes, std::size_t spatial) {
  return std::span<const std::int64_t>(sizes).last(spatial);
}

MemoryFormat image_format(const Tensor& x, std::size_t spatial) {
  return x.shape().size() == spatial + 2 ? layout::format_of(x.shape(), x.strides())
                                         : MemoryFormat::contiguous;
}

void set_layout(kernels::Pooling& pooling, const Shape& shape, std::size_t spatial, MemoryFormat format) {
  const std::int64_t channels = shape[shape.size() - spatial - 1];
  const std::int64_t batch = shape.size() == spatial + 2 ? shape[0] : 1;
  const bool last = format == MemoryFormat::channels_last;
  pooling.outer = last ? batch : batch * channels;
  pooling.inner = last ? channels : 1;
}

void require_sizes(std::string_view op, const Shape& size, const Tensor& grad) {
  const std::size_t spatial = size.size(), rank = grad.shape().size();
  const bool positive = std::ranges::all_of(size, [](std::int64_t one) { return one > 0; });
  if (spatial < 1 || spatial > kernels::Windows::kDims || !positive)
    throw ValueError(op, "1 to 3 spatial sizes of at least 1", to_string(size), "pass those of the input");
  layout::checked_numel(op, size);
  if (rank == spatial + 1 || rank == spatial + 2) return;
  throw ShapeError(
      op, "a gradient of " + std::to_string(spatial + 1) + " or " + std::to_string(spatial + 2) + " dims",
      to_string(grad.shape()), "pass the gradient of a pooling's result");
}

void require_pooled(std::string_view op, const Tensor& grad, const kernels::Windows& windows,
                    std::size_t spatial) {
  const auto wanted = sizes_of(windows.output, spatial);
  if (std::ranges::equal(spatial_sizes(grad.shape(), spatial), wanted)) return;
  throw ShapeError(op, "a gradient with the spatial sizes " + to_string(Shape(wanted)),
                   to_string(grad.shape()), "pass the gradient of the result of these windows");
}

DType gradient_dtype(std::string_view op, const Tensor& grad, std::optional<DType> dtype) {
  require_floating(op, grad);
  if (dtype && !is_floating(*dtype))
    throw DTypeError(op, "a floating dtype", to_string(*dtype), "use f32 or another");
  return dtype.value_or(grad.dtype());
}

}  // namespace mezzo::ops
