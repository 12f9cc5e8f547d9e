// Descriptors of avg_pool1d to 3d, of adaptive_avg_pool1d to 3d, and of their gradient. A mean is linear: the
// gradient of the gradient is the pooling again.
#include "mezzo/ops/factory.h"
#include "mezzo/ops/vision/pooling_common.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::real;

template <class A>
constexpr std::array<std::string_view, 3> kNames{"avg_pool1d", "avg_pool2d", "avg_pool3d"};
template <>
constexpr std::array<std::string_view, 3> kNames<AdaptivePoolAttrs>{
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"};
constexpr std::string_view kBackward = "avg_pool_backward";

struct AvgPoolAttrs : PoolAttrs {
  bool count_include_pad = true;
  std::optional<std::int64_t> divisor_override = {};
  MEZZO_FIELDS(AvgPoolAttrs, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
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

template <std::size_t kSpatial, class A>
Outputs forward(const ForwardArgs<A>& args) {
  constexpr std::string_view kOp = kNames<A>[kSpatial - 1];
  constexpr bool kAdaptive = std::is_same_v<A, AdaptivePoolAttrs>;
  const Tensor& x = args.in(0);
  require_floating(kOp, x);
  require_images(kOp, x, kSpatial, kAdaptive ? Channels::may_be_none : Channels::required);
  return averaged(kOp, x, kSpatial, pooling_of(kOp, args.attrs, spatial_sizes(x.shape(), kSpatial)));
}

template <std::size_t kSpatial, class A>
Gradients vjp(const VjpArgs<A>& args) {
  AvgPoolAttrs attrs;  // without kernel_size those of an adaptive pooling
  if constexpr (std::is_same_v<A, AvgPoolAttrs>) attrs = args.attrs;
  return {avg_pool_backward(args.grad(), {attrs, spatial_sizes(args.in_shape(0), kSpatial), args.wanted(0)})};
}

template <std::size_t kSpatial>
std::vector<Sample<AvgPoolAttrs>> samples_of(AvgPoolAttrs /*kind*/) {
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
std::vector<Sample<AdaptivePoolAttrs>> samples_of(AdaptivePoolAttrs /*kind*/) {
  if constexpr (kSpatial == 1)
    return {{{real({2, 3, 7})}, {{3}}}, {{real({2, 3})}, {{5}}}};
  else if constexpr (kSpatial == 2)
    return {{{real({2, 3, 7, 5})}, {{3, 2}}}, {{real({2, 4, 3})}, {{1}}}, {{real({2, 0, 4, 3})}, {{2}}}};
  else
    return {{{real({1, 2, 4, 3, 5})}, {{3, 1, 2}}}};
}

template <class A, std::size_t kSpatial>
constexpr Op<A> kPool = plain_op<A>(
    kNames<A>[kSpatial - 1], Category::passthrough, [] { return samples_of<kSpatial>(A{}); },
    forward<kSpatial, A>, vjp<kSpatial, A>, kSaveNothing);

/// The pooling of so many dims.
template <class A>
Tensor pooled(const Tensor& x, std::size_t spatial, const A& attrs) {
  if (spatial == 1) return bind(kPool<A, 1>, {x}, attrs);
  return spatial == 2 ? bind(kPool<A, 2>, {x}, attrs) : bind(kPool<A, 3>, {x}, attrs);
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
constexpr Op<AvgPoolBackwardAttrs> backward_op = plain_op<AvgPoolBackwardAttrs>(
    kBackward, Category::passthrough, backward_samples, backward_forward, backward_vjp, kSaveNothing);

Tensor avg_pool_backward(const Tensor& grad, const AvgPoolBackwardAttrs& attrs) {
  return bind(backward_op, {grad}, attrs);
}

Tensor pooled(const Tensor& x, std::size_t spatial, const AvgPoolOptions& options) {
  return pooled<AvgPoolAttrs>(x, spatial,
                              {{options.kernel_size, options.stride, options.padding, options.ceil_mode},
                               options.count_include_pad,
                               options.divisor_override});
}
Tensor pooled(const Tensor& x, std::size_t spatial, const AdaptiveSizes& output_size) {
  return pooled(x, spatial, adaptive_attrs(x, output_size, spatial));
}

const Registered average_pool_registered{kPool<AvgPoolAttrs, 1>,
                                         kPool<AvgPoolAttrs, 2>,
                                         kPool<AvgPoolAttrs, 3>,
                                         kPool<AdaptivePoolAttrs, 1>,
                                         kPool<AdaptivePoolAttrs, 2>,
                                         kPool<AdaptivePoolAttrs, 3>,
                                         backward_op};

}  // namespace

Tensor avg_pool1d(const Tensor& x, const AvgPoolOptions& options) { return pooled(x, 1, options); }
Tensor avg_pool2d(const Tensor& x, const AvgPoolOptions& options) { return pooled(x, 2, options); }
Tensor avg_pool3d(const Tensor& x, const AvgPoolOptions& options) { return pooled(x, 3, options); }
Tensor adaptive_avg_pool1d(const Tensor& x, const AdaptiveSizes& sizes) { return pooled(x, 1, sizes); }
Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveSizes& sizes) { return pooled(x, 2, sizes); }
Tensor adaptive_avg_pool3d(const Tensor& x, const AdaptiveSizes& sizes) { return pooled(x, 3, sizes); }

}  // namespace mezzo
