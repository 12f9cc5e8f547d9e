// Descriptors of avg_pool1d to 3d, of adaptive_avg_pool1d to 3d, and of their gradient. A mean is linear: the
// gradient of the gradient is the pooling again.
#include "mezzo/ops/factory.h"
#include "mezzo/ops/vision/pooling_common.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::real;

constexpr std::array<std::string_view, 3> kNames{"avg_pool1d", "avg_pool2d", "avg_pool3d"};
constexpr std::array<std::string_view, 3> kAdaptiveNames{"adaptive_avg_pool1d", "adaptive_avg_pool2d",
                                                         "adaptive_avg_pool3d"};
constexpr std::string_view kBackward = "avg_pool_backward";

struct AvgPoolAttrs : PoolAttrs {
  bool count_include_pad = true;
  std::optional<std::int64_t> divisor_override = {};
  static constexpr auto fields() {
    using A = AvgPoolAttrs;
    return std::tuple_cat(PoolAttrs::fields(), std::tuple{attr("count_include_pad", &A::count_include_pad),
                                                          attr("divisor_override", &A::divisor_override)});
  }
};
using AvgPoolBackwardAttrs = PoolBackwardAttrs<AvgPoolAttrs>;

[[nodiscard]] Tensor avg_pool_backward(const Tensor& grad, const AvgPoolBackwardAttrs& attrs);

kernels::AveragePooling pooling_of(std::string_view op, const AvgPoolAttrs& attrs, const Shape& sizes) {
  if (attrs.divisor_override == 0)
    throw ValueError(op, "a divisor_override other than 0", "0", "leave it out to divide by the count");
  return {{.windows = pool_windows(op, attrs, {1}, sizes)},
          attrs.count_include_pad,
          attrs.divisor_override.value_or(0)};
}
kernels::AveragePooling pooling_of(std::string_view op, const AdaptivePoolAttrs& attrs, const Shape& sizes) {
  return {{.windows = adaptive_windows(op, attrs, sizes), .adaptive = true}};
}

// --- forward

Tensor averaged(std::string_view op, const Tensor& x, std::size_t spatial, kernels::AveragePooling pooling) {
  const Shape shape = with_spatial_sizes(x.shape(), sizes_of(pooling.windows.output, spatial));
  layout::checked_numel(op, shape);
  const MemoryFormat format = image_format(x, spatial);
  const Tensor in = x.contiguous(format);
  Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device(), .memory_format = format});
  set_layout(pooling, shape, spatial, format);
  if (y.numel() > 0) kernels::average_pool(x.device(), pooling, view_of(y), view_of(in));
  return y;
}

template <std::size_t kSpatial>
Outputs forward(const ForwardArgs<AvgPoolAttrs>& args) {
  constexpr std::string_view kOp = kNames[kSpatial - 1];
  const Tensor& x = args.in(0);
  require_floating(kOp, x);
  require_images(kOp, x, kSpatial);
  return averaged(kOp, x, kSpatial, pooling_of(kOp, args.attrs, spatial_sizes(x.shape(), kSpatial)));
}
template <std::size_t kSpatial>
Outputs adaptive_forward(const ForwardArgs<AdaptivePoolAttrs>& args) {
  constexpr std::string_view kOp = kAdaptiveNames[kSpatial - 1];
  const Tensor& x = args.in(0);
  require_floating(kOp, x);
  require_images(kOp, x, kSpatial, Channels::may_be_none);
  return averaged(kOp, x, kSpatial, pooling_of(kOp, args.attrs, spatial_sizes(x.shape(), kSpatial)));
}

template <std::size_t kSpatial>
Gradients vjp(const VjpArgs<AvgPoolAttrs>& args) {
  return {avg_pool_backward(args.grad(),
                            {args.attrs, spatial_sizes(args.in_shape(0), kSpatial), args.wanted(0)})};
}
template <std::size_t kSpatial>
Gradients adaptive_vjp(const VjpArgs<AdaptivePoolAttrs>& args) {
  return {avg_pool_backward(args.grad(), {{}, spatial_sizes(args.in_shape(0), kSpatial), args.wanted(0)})};
}

template <std::size_t kSpatial>
std::vector<Sample<AvgPoolAttrs>> pool_samples() {
  if constexpr (kSpatial == 1) {
    return {{{real({2, 3, 7})}, {{{3}, {2}, {1}}}},
            {{real({2, 34})}, {{{4}, {3}, {2}, true}, false}},
            {{real({0, 2, 5})}, {{{2}}}}};
  } else if constexpr (kSpatial == 2) {
    return {{{real({2, 3, 7, 5})}, {{{3, 2}, {2, 1}, {1, 0}}, false}},
            {{real({2, 6, 9})}, {{{2, 3}, {3, 1}, {1}, true}}},
            {{real({1, 2, 4, 21})}, {{{2, 3}, {3, 2}, {1}, true}, true, 5}},
            {{real({0, 2, 3, 3})}, {{{2}}}}};
  } else {
    return {{{real({1, 2, 4, 3, 5})}, {{{2, 3, 2}, {1, 2, 3}, {1, 1, 0}}}},
            {{real({2, 3, 4, 5})}, {{{2}, {}, {1, 0, 1}, true}, false, -3}}};
  }
}
template <std::size_t kSpatial>
std::vector<Sample<AdaptivePoolAttrs>> adaptive_samples() {
  if constexpr (kSpatial == 1)
    return {{{real({2, 3, 7})}, {{3}}}, {{real({2, 3})}, {{5}}}};
  else if constexpr (kSpatial == 2)
    return {{{real({2, 3, 7, 5})}, {{3, 2}}}, {{real({2, 4, 3})}, {{1}}}, {{real({2, 0, 4, 3})}, {{2}}}};
  else
    return {{{real({1, 2, 4, 3, 5})}, {{3, 1, 2}}}};
}

template <std::size_t kSpatial>
constexpr Op<AvgPoolAttrs> kPool{
    .info = {.name = kNames[kSpatial - 1], .category = Category::passthrough},
    .samples = pool_samples<kSpatial>,
    .forward = forward<kSpatial>,
    .vjp = vjp<kSpatial>,
    .saves = kSaveNothing,
};
template <std::size_t kSpatial>
constexpr Op<AdaptivePoolAttrs> kAdaptivePool{
    .info = {.name = kAdaptiveNames[kSpatial - 1], .category = Category::passthrough},
    .samples = adaptive_samples<kSpatial>,
    .forward = adaptive_forward<kSpatial>,
    .vjp = adaptive_vjp<kSpatial>,
    .saves = kSaveNothing,
};
const Registered pool1d_registered{kPool<1>}, pool2d_registered{kPool<2>}, pool3d_registered{kPool<3>};
const Registered adaptive1d_registered{kAdaptivePool<1>}, adaptive2d_registered{kAdaptivePool<2>},
    adaptive3d_registered{kAdaptivePool<3>};

template <std::size_t kSpatial>
Tensor pooled(const Tensor& x, const AvgPoolAttrs& attrs) {
  return bind(kPool<kSpatial>, {x}, attrs);
}
template <std::size_t kSpatial>
Tensor pooled(const Tensor& x, const AdaptivePoolAttrs& attrs) {
  return bind(kAdaptivePool<kSpatial>, {x}, attrs);
}
/// The pooling of as many dims as there are sizes.
template <class A>
Tensor pooled(const Tensor& x, std::size_t spatial, const A& attrs) {
  if (spatial == 1) return pooled<1>(x, attrs);
  return spatial == 2 ? pooled<2>(x, attrs) : pooled<3>(x, attrs);
}

// --- avg_pool_backward

Outputs backward_forward(const ForwardArgs<AvgPoolBackwardAttrs>& args) {
  const Tensor& grad = args.in(0);
  const AvgPoolBackwardAttrs& attrs = args.attrs;
  const std::size_t spatial = attrs.size.size();
  const DType dtype = gradient_dtype(kBackward, grad, attrs.dtype);
  require_sizes(kBackward, attrs.size, grad);
  const AdaptivePoolAttrs adaptive{spatial_sizes(grad.shape(), spatial)};
  kernels::AveragePooling pooling = attrs.kernel_size.empty() ? pooling_of(kBackward, adaptive, attrs.size)
                                                              : pooling_of(kBackward, attrs, attrs.size);
  require_pooled(kBackward, grad, pooling.windows, spatial);
  const Shape shape = with_spatial_sizes(grad.shape(), attrs.size);
  layout::checked_numel(kBackward, shape);
  const MemoryFormat format = image_format(grad, spatial);
  if (grad.numel() == 0) return zeros(shape, {.dtype = dtype, .device = grad.device()});
  const Tensor g = grad.contiguous(format);
  const Tensor dx = empty(shape, {.dtype = dtype, .device = grad.device(), .memory_format = format});
  set_layout(pooling, shape, spatial, format);
  kernels::average_pool_backward(grad.device(), pooling, view_of(dx), view_of(g));
  return dx;
}

Gradients backward_vjp(const VjpArgs<AvgPoolBackwardAttrs>& args) {
  const AvgPoolBackwardAttrs& attrs = args.attrs;
  const std::size_t spatial = attrs.size.size();
  if (!attrs.kernel_size.empty()) return {pooled<AvgPoolAttrs>(args.grad(), spatial, attrs)};
  const AdaptivePoolAttrs adaptive{spatial_sizes(args.in_shape(0), spatial)};
  return {pooled(args.grad(), spatial, adaptive)};
}

std::vector<Sample<AvgPoolBackwardAttrs>> backward_samples() {
  return {{{real({2, 3, 4})}, {{{{3}, {2}, {1}}}, {7}}},
          {{real({2, 2, 9})}, {{{{2, 3}, {3, 1}, {1}, true}, false}, {5, 9}}},
          {{real({1, 2, 3, 2})}, {{}, {7, 5}}},
          {{real({1, 2, 3, 1, 2})}, {{}, {4, 3, 5}, DType::f64}}};
}
constexpr Op<AvgPoolBackwardAttrs> backward_op{
    .info = {.name = kBackward, .category = Category::passthrough},
    .samples = backward_samples,
    .forward = backward_forward,
    .vjp = backward_vjp,
    .saves = kSaveNothing,
};
const Registered backward_registered{backward_op};

Tensor avg_pool_backward(const Tensor& grad, const AvgPoolBackwardAttrs& attrs) {
  return bind(backward_op, {grad}, attrs);
}

AvgPoolAttrs attrs_of(const AvgPoolOptions& options) {
  return {{options.kernel_size, options.stride, options.padding, options.ceil_mode},
          options.count_include_pad,
          options.divisor_override};
}

}  // namespace

Tensor avg_pool1d(const Tensor& x, const AvgPoolOptions& options) { return pooled<1>(x, attrs_of(options)); }
Tensor avg_pool2d(const Tensor& x, const AvgPoolOptions& options) { return pooled<2>(x, attrs_of(options)); }
Tensor avg_pool3d(const Tensor& x, const AvgPoolOptions& options) { return pooled<3>(x, attrs_of(options)); }
Tensor adaptive_avg_pool1d(const Tensor& x, const AdaptiveSizes& output_size) {
  return pooled<1>(x, adaptive_attrs(x, output_size, 1));
}
Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveSizes& output_size) {
  return pooled<2>(x, adaptive_attrs(x, output_size, 2));
}
Tensor adaptive_avg_pool3d(const Tensor& x, const AdaptiveSizes& output_size) {
  return pooled<3>(x, adaptive_attrs(x, output_size, 3));
}

}  // namespace mezzo
