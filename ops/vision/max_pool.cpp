// Descriptors of (adaptive_)max_pool1d to 3d, and of their gradient. All save the indices only.
#include "mezzo/ops/ops.h"
#include "mezzo/ops/vision/pooling_common.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::distinct;

template <class A>
constexpr std::array<std::string_view, 3> kNames{"max_pool1d", "max_pool2d", "max_pool3d"};
template <>
constexpr std::array<std::string_view, 3> kNames<AdaptivePoolAttrs>{
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"};
constexpr std::string_view kBackward = "max_pool_backward";

struct MaxPoolAttrs : PoolAttrs {
  Dims dilation{1};
  MEZZO_FIELDS(MaxPoolAttrs, kernel_size, stride, padding, ceil_mode, dilation)
};
using MaxPoolBackwardAttrs = PoolBackwardAttrs<MaxPoolAttrs>;

[[nodiscard]] Tensor max_pool_backward(const Tensor& grad, const Tensor& indices,
                                       const MaxPoolBackwardAttrs& attrs);

// --- forward

void require_order(std::string_view op, const Tensor& x) {
  if (x.dtype() != DType::boolean) return;
  throw DTypeError(op, "numbers", to_string(x.dtype()), "convert it with to(DType::u8)");
}

Outputs largest(std::string_view op, const Tensor& x, std::size_t spatial, kernels::Pooling pooling) {
  const Shape shape = with_spatial_sizes(x.shape(), sizes_of(pooling.windows.output, spatial));
  layout::checked_numel(op, shape);
  const MemoryFormat format = image_format(x, spatial);
  const Tensor in = x.contiguous(format);
  const Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device(), .memory_format = format});
  const Tensor at = empty(shape, {.dtype = DType::i64, .device = x.device(), .memory_format = format});
  set_layout(pooling, shape, spatial, format);
  if (y.numel() > 0) {
    kernels::max_pool(x.device(), pooling, view_of(y), static_cast<std::int64_t*>(at.impl().data()),
                      view_of(in));
  }
  return Tensors{y, at};
}

kernels::Pooling pooling_of(std::string_view op, const MaxPoolAttrs& attrs, const Shape& sizes) {
  return {.windows = pool_windows(op, attrs, attrs.dilation, sizes)};
}
kernels::Pooling pooling_of(std::string_view op, const AdaptivePoolAttrs& attrs, const Shape& sizes) {
  return {.windows = adaptive_windows(op, attrs, sizes), .adaptive = true};
}

template <std::size_t kSpatial, class A>
Outputs forward(const ForwardArgs<A>& args) {
  constexpr std::string_view kOp = kNames<A>[kSpatial - 1];
  const Tensor& x = args.in(0);
  require_order(kOp, x);
  require_images(kOp, x, kSpatial);
  return largest(kOp, x, kSpatial, pooling_of(kOp, args.attrs, spatial_sizes(x.shape(), kSpatial)));
}

template <std::size_t kSpatial, class A>
Gradients vjp(const VjpArgs<A>& args) {
  MaxPoolAttrs attrs;  // without kernel_size those of an adaptive pooling
  if constexpr (std::is_same_v<A, MaxPoolAttrs>) attrs = args.attrs;
  return {max_pool_backward(args.grad(0), args.out(1),
                            {attrs, spatial_sizes(args.in_shape(0), kSpatial), args.wanted(0)})};
}

template <std::size_t kSpatial>
std::vector<Sample<MaxPoolAttrs>> samples_of(MaxPoolAttrs /*kind*/) {
  if constexpr (kSpatial == 1) {
    return {{{distinct({2, 3, 7})}, {{{3}, {2}, {1}}}},
            {{distinct({2, 33})}, {{{2}, {}, {0}, true}, {3}}},
            {{distinct({0, 2, 5})}, {{{2}}}}};
  } else if constexpr (kSpatial == 2) {
    return {{{distinct({2, 3, 7, 5})}, {{{3, 2}, {2, 1}, {1, 0}}}},
            {{distinct({2, 6, 9})}, {{{2, 3}, {3, 1}, {1}, true}, {2, 1}}},
            {{distinct({1, 1, 4, 21})}, {{{2}, {2}, {1}}}},
            {{distinct({0, 2, 3, 3})}, {{{2}}}}};
  } else {
    return {{{distinct({1, 2, 4, 3, 5})}, {{{2, 3, 2}, {1, 2, 3}, {1, 1, 0}}}},
            {{distinct({2, 3, 4, 5})}, {{{2}, {}, {1, 0, 1}, true}, {1, 2, 1}}}};
  }
}
template <std::size_t kSpatial>
std::vector<Sample<AdaptivePoolAttrs>> samples_of(AdaptivePoolAttrs /*kind*/) {
  if constexpr (kSpatial == 1)
    return {{{distinct({2, 3, 7})}, {{3}}}, {{distinct({2, 3})}, {{5}}}};
  else if constexpr (kSpatial == 2)
    return {{{distinct({2, 3, 7, 5})}, {{3, 2}}},
            {{distinct({2, 4, 3})}, {{1}}},
            {{distinct({0, 2, 4, 3})}, {{2}}}};
  else
    return {{{distinct({1, 2, 4, 3, 5})}, {{3, 1, 2}}}};
}

template <class A, std::size_t kSpatial>
constexpr Op<A> kPool = plain_op<A>(
    kNames<A>[kSpatial - 1], Category::passthrough, [] { return samples_of<kSpatial>(A{}); },
    forward<kSpatial, A>, vjp<kSpatial, A>, save_outputs(1));

// --- max_pool_backward. Inputs: grad, indices. The indices must come from a pooling over these windows: on
// the CPU one that is not in the image throws IndexError, on a CUDA device one outside of its window has no
// effect.

Outputs backward_forward(const ForwardArgs<MaxPoolBackwardAttrs>& args) {
  const Tensor &grad = args.in(0), &indices = args.in(1);
  const std::size_t spatial = args.attrs.size.size();
  const DType dtype = gradient_dtype(kBackward, grad, args.attrs.dtype);
  require_sizes(kBackward, args.attrs.size, grad);
  if (indices.dtype() != DType::i64)
    throw DTypeError(kBackward, "indices of dtype i64", to_string(indices.dtype()), "pass max_pool's");
  if (indices.shape() != grad.shape())
    throw ShapeError(kBackward, "indices " + to_string(grad.shape()) + " like the gradient",
                     to_string(indices.shape()), "pass those of the same call");
  const AdaptivePoolAttrs adaptive{spatial_sizes(grad.shape(), spatial)};
  kernels::Pooling pooling = args.attrs.kernel_size.empty()
                                 ? pooling_of(kBackward, adaptive, args.attrs.size)
                                 : pooling_of(kBackward, args.attrs, args.attrs.size);
  require_pooled(kBackward, grad, pooling.windows, spatial);
  const Shape shape = with_spatial_sizes(grad.shape(), args.attrs.size);
  layout::checked_numel(kBackward, shape);
  const MemoryFormat format = image_format(indices, spatial);
  const Tensor g = grad.contiguous(format), at = indices.contiguous(format);
  set_layout(pooling, shape, spatial, format);
  if (grad.numel() == 0) return zeros(shape, {.dtype = dtype, .device = grad.device()});
  const Tensor dx = empty(shape, {.dtype = dtype, .device = grad.device(), .memory_format = format});
  const auto* const places = static_cast<const std::int64_t*>(at.impl().data());
  const std::int64_t wrong =
      kernels::max_pool_backward(grad.device(), pooling, view_of(dx), view_of(g), places);
  if (wrong < 0) return dx;
  throw IndexError(kBackward, "indices in [0, " + std::to_string(pooling.windows.inputs()) + ")",
                   std::to_string(places[wrong]), "pass those of the same pooling");
}

Gradients backward_vjp(const VjpArgs<MaxPoolBackwardAttrs>& args) {
  const Tensor indices = args.in(1);
  const auto first = -static_cast<std::int64_t>(args.attrs.size.size());
  const Tensor images = flatten(args.grad(), first, -1);
  return {reshape(gather(images, -1, flatten(indices, first, -1)), indices.shape()), Tensor()};
}

/// All windows cover the whole input, so that any index is one of its window.
std::vector<Sample<MaxPoolBackwardAttrs>> backward_samples() {
  using op_samples::index;
  using op_samples::real;
  return {{{real({2, 3, 3}), index({2, 3, 3}, 3)}, {{{{5}, {1}, {2}}}, {3}}},
          {{real({2, 3, 2}), index({2, 3, 2}, 6)}, {{{{5, 4}, {1, 2}, {2}}}, {3, 2}}},
          {{real({1, 2, 1, 1, 1}), index({1, 2, 1, 1, 1}, 12)}, {{}, {2, 3, 2}}}};
}
constexpr Op<MaxPoolBackwardAttrs> backward_op = plain_op<MaxPoolBackwardAttrs>(
    kBackward, Category::passthrough, backward_samples, backward_forward, backward_vjp, save_inputs(1));

Tensor max_pool_backward(const Tensor& grad, const Tensor& indices, const MaxPoolBackwardAttrs& attrs) {
  return bind(backward_op, {grad, indices}, attrs);
}

/// The pooling of kSpatial dims.
template <std::size_t kSpatial>
ValuesIndices pooled(const Tensor& x, const MaxPoolOptions& options) {
  Outputs outputs =
      bind(kPool<MaxPoolAttrs, kSpatial>, {x},
           {{options.kernel_size, options.stride, options.padding, options.ceil_mode}, options.dilation});
  return {std::move(outputs[0]), std::move(outputs[1])};
}
template <std::size_t kSpatial>
ValuesIndices pooled(const Tensor& x, const AdaptiveSizes& output_size) {
  Outputs outputs = bind(kPool<AdaptivePoolAttrs, kSpatial>, {x}, adaptive_attrs(x, output_size, kSpatial));
  return {std::move(outputs[0]), std::move(outputs[1])};
}

const Registered max_pool_registered{kPool<MaxPoolAttrs, 1>,
                                     kPool<MaxPoolAttrs, 2>,
                                     kPool<MaxPoolAttrs, 3>,
                                     kPool<AdaptivePoolAttrs, 1>,
                                     kPool<AdaptivePoolAttrs, 2>,
                                     kPool<AdaptivePoolAttrs, 3>,
                                     backward_op};

}  // namespace

Tensor max_pool1d(const Tensor& x, const MaxPoolOptions& options) { return pooled<1>(x, options).values; }
Tensor max_pool2d(const Tensor& x, const MaxPoolOptions& options) { return pooled<2>(x, options).values; }
Tensor max_pool3d(const Tensor& x, const MaxPoolOptions& options) { return pooled<3>(x, options).values; }
ValuesIndices max_pool1d_with_indices(const Tensor& x, const MaxPoolOptions& options) {
  return pooled<1>(x, options);
}
ValuesIndices max_pool2d_with_indices(const Tensor& x, const MaxPoolOptions& options) {
  return pooled<2>(x, options);
}
ValuesIndices max_pool3d_with_indices(const Tensor& x, const MaxPoolOptions& options) {
  return pooled<3>(x, options);
}
Tensor adaptive_max_pool1d(const Tensor& x, const AdaptiveSizes& output_size) {
  return pooled<1>(x, output_size).values;
}
Tensor adaptive_max_pool2d(const Tensor& x, const AdaptiveSizes& output_size) {
  return pooled<2>(x, output_size).values;
}
Tensor adaptive_max_pool3d(const Tensor& x, const AdaptiveSizes& output_size) {
  return pooled<3>(x, output_size).values;
}
ValuesIndices adaptive_max_pool1d_with_indices(const Tensor& x, const AdaptiveSizes& output_size) {
  return pooled<1>(x, output_size);
}
ValuesIndices adaptive_max_pool2d_with_indices(const Tensor& x, const AdaptiveSizes& output_size) {
  return pooled<2>(x, output_size);
}
ValuesIndices adaptive_max_pool3d_with_indices(const Tensor& x, const AdaptiveSizes& output_size) {
  return pooled<3>(x, output_size);
}

}  // namespace mezzo
