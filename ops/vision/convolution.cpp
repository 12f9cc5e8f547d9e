// Descriptors of conv1d to conv3d and conv_transpose1d to conv_transpose3d: their checks and sizes; what they
// compute is in convolution_maps.cu.
#include "mezzo/ops/convolution.h"

#include "mezzo/kernels/conv/conv.h"
#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/vision/convolution_common.h"

namespace mezzo {

ConvPadding::ConvPadding(const char* word) : same_(std::string_view(word) == "same") {
  if (same_ || std::string_view(word) == "valid") return;
  throw ValueError("ConvPadding", "\"same\", \"valid\" or sizes", quote(word), "use one of these words");
}

ConvPadding ConvPadding::from_value(const Value& value) {
  if (value.is_string()) return ConvPadding(value.as_string().c_str());
  return detail::dims_from(value);
}
Value ConvPadding::to_value() const {
  return same_ ? Value("same") : Value(std::span<const std::int64_t>(sizes_));
}

namespace {

using namespace ops;
using op_samples::absent;
using op_samples::real;

constexpr std::array<std::string_view, 3> kNames{"conv1d", "conv2d", "conv3d"};
constexpr std::array<std::string_view, 3> kTransposeNames{"conv_transpose1d", "conv_transpose2d",
                                                          "conv_transpose3d"};

// --- checks and sizes

/// Sizes of x's spatial dims, and of the kernel's.
std::int64_t last(const Shape& shape, std::size_t spatial, std::size_t d) {
  return shape[shape.size() - spatial + d];
}

void require_bias(std::string_view op, const Tensor& x, const Tensor& bias, std::int64_t channels) {
  if (!bias.defined()) return;
  if (bias.shape() != Shape{channels}) {
    throw ShapeError(op, "a bias " + to_string(Shape{channels}), to_string(bias.shape()),
                     "give it one element per output channel");
  }
  static_cast<void>(product_dtype(op, x, bias, {}));
}

/// The checks that plain and transposed convolutions share, before anything is computed from the sizes.
void require_tensors(std::string_view op, const Tensor& x, const Tensor& weight, std::size_t spatial,
                     std::int64_t groups) {
  require_floating(op, x);
  require_dims(op, "a weight", weight, static_cast<std::int64_t>(spatial) + 2);
  require_groups(op, "a weight with channels in dim 0", weight.size(0), groups);
  // Any number of groups divides 0 channels in dim 0; the channels of dim 1 are multiplied by it.
  std::int64_t channels = 0;
  if (__builtin_mul_overflow(weight.size(1), groups, &channels)) {
    throw ValueError(op, "groups whose channels can be counted",
                     std::to_string(groups) + " groups of " + std::to_string(weight.size(1)),
                     "check the groups");
  }
  for (std::size_t d = 0; d < spatial; ++d) {
    if (last(weight.shape(), spatial, d) >= 1) continue;
    throw ShapeError(op, "kernel sizes of at least 1", to_string(weight.shape()), "check the weight");
  }
  static_cast<void>(product_dtype(op, x, weight, {}));
}

/// Padding in front of each dim, and the whole of it.
struct Pads {
  Dims front, total;
};
Pads pads_of(std::string_view op, const ConvOptions& attrs, const Dims& stride, const Dims& dilation,
             const Shape& weight, std::size_t spatial) {
  Pads pads{Dims(spatial, 0), Dims(spatial, 0)};
  if (!attrs.padding.is_same()) {
    pads.front = per_dim(op, "padding", attrs.padding.sizes(), spatial, 0);
    for (std::size_t d = 0; d < spatial; ++d) pads.total[d] = 2 * pads.front[d];
    return pads;
  }
  for (std::size_t d = 0; d < spatial; ++d) {
    if (stride[d] != 1)
      throw ValueError(op, "strides of 1 with padding \"same\"", to_string(stride),
                       "give the padding in numbers");
    pads.total[d] = kernel_reach(last(weight, spatial, d), dilation[d]) - 1;
    pads.front[d] = pads.total[d] / 2;
  }
  return pads;
}

ConvolutionAttrs sized(std::string_view op, const Shape& x, const Shape& weight, std::size_t spatial,
                       const ConvOptions& attrs) {
  ConvolutionAttrs result;
  result.stride = per_dim(op, "strides", attrs.stride, spatial, 1);
  result.dilation = per_dim(op, "dilations", attrs.dilation, spatial, 1);
  result.groups = attrs.groups;
  const Pads pads = pads_of(op, attrs, result.stride, result.dilation, weight, spatial);
  result.padding = pads.front;
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::int64_t reach = kernel_reach(last(weight, spatial, d), result.dilation[d]);
    const std::int64_t padded = last(x, spatial, d) + pads.total[d];
    if (padded < reach) {
      throw ShapeError(op,
                       "a kernel of at most " + std::to_string(padded) +
                           ", the padded input's size, in dim " + std::to_string(d),
                       std::to_string(reach), "pad more, or take a smaller kernel or dilation");
    }
    result.size.push_back((padded - reach) / result.stride[d] + 1);
  }
  return result;
}

ConvolutionAttrs sized(std::string_view op, const Shape& x, const Shape& weight, std::size_t spatial,
                       const ConvTransposeOptions& attrs) {
  ConvolutionAttrs result;
  result.stride = per_dim(op, "strides", attrs.stride, spatial, 1);
  result.dilation = per_dim(op, "dilations", attrs.dilation, spatial, 1);
  result.padding = per_dim(op, "padding", attrs.padding, spatial, 0);
  result.groups = attrs.groups;
  const Dims extra = per_dim(op, "output_padding", attrs.output_padding, spatial, 0);
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::int64_t limit = std::max(result.stride[d], result.dilation[d]);
    if (extra[d] >= limit) {
      throw ValueError(op,
                       "output_padding below stride or dilation, " + std::to_string(limit) + " in dim " +
                           std::to_string(d),
                       std::to_string(extra[d]), "it chooses among the sizes that a stride rounds away");
    }
    const std::int64_t input = last(x, spatial, d);
    // The reach of all windows: of a kernel whose positions are a stride apart, one per place of x.
    const std::int64_t size = kernel_reach(std::max<std::int64_t>(input, 1), result.stride[d]) -
                              2 * result.padding[d] +
                              kernel_reach(last(weight, spatial, d), result.dilation[d]) - 1 + extra[d];
    if (size < 0 || input < 1) {
      throw ShapeError(op, "an output size of at least 0 in dim " + std::to_string(d), std::to_string(size),
                       "pad less, or take a larger input");
    }
    result.size.push_back(size);
  }
  return result;
}

// --- forward and gradients. Inputs: x, weight, bias

template <std::size_t kSpatial>
Outputs forward(const ForwardArgs<ConvOptions>& args) {
  constexpr std::string_view kOp = kNames[kSpatial - 1];
  const Tensor &x = args.in(0), &weight = args.in(1);
  require_tensors(kOp, x, weight, kSpatial, args.attrs.groups);
  require_image(kOp, "an input", x, kSpatial, weight.size(1) * args.attrs.groups);
  require_bias(kOp, x, args.in(2), weight.size(0));
  return convolve(x, weight, args.in(2), sized(kOp, x.shape(), weight.shape(), kSpatial, args.attrs),
                  x.dtype());
}

template <std::size_t kSpatial>
Outputs transpose_forward(const ForwardArgs<ConvTransposeOptions>& args) {
  constexpr std::string_view kOp = kTransposeNames[kSpatial - 1];
  const Tensor &x = args.in(0), &weight = args.in(1);
  require_tensors(kOp, x, weight, kSpatial, args.attrs.groups);
  require_image(kOp, "an input", x, kSpatial, weight.size(0));
  require_bias(kOp, x, args.in(2), weight.size(1) * args.attrs.groups);
  return convolve_transposed(x, weight, args.in(2),
                             sized(kOp, x.shape(), weight.shape(), kSpatial, args.attrs), x.dtype());
}

template <std::size_t kSpatial>
Gradients vjp(const VjpArgs<ConvOptions>& args) {
  const ConvolutionAttrs attrs =
      sized(kNames[kSpatial - 1], args.in_shape(0), args.in_shape(1), kSpatial, args.attrs);
  const Tensor g = args.grad();
  Gradients result{Tensor(), Tensor(), Tensor()};
  if (args.needs(0))
    result[0] = convolution_backward_input(g, args.in(1), with_size(attrs, args.in_shape(0), args.wanted(0)));
  if (args.needs(1))
    result[1] =
        convolution_backward_weight(g, args.in(0), with_size(attrs, args.in_shape(1), args.wanted(1)));
  if (args.needs(2)) result[2] = channel_sums(g, kSpatial, args.wanted(2));
  return result;
}

template <std::size_t kSpatial>
Gradients transpose_vjp(const VjpArgs<ConvTransposeOptions>& args) {
  const ConvolutionAttrs attrs =
      sized(kTransposeNames[kSpatial - 1], args.in_shape(0), args.in_shape(1), kSpatial, args.attrs);
  const Tensor g = args.grad();
  Gradients result{Tensor(), Tensor(), Tensor()};
  if (args.needs(0))
    result[0] = convolution_forward(g, args.in(1), {}, with_size(attrs, args.in_shape(0), args.wanted(0)));
  if (args.needs(1))
    result[1] =
        convolution_backward_weight(args.in(0), g, with_size(attrs, args.in_shape(1), args.wanted(1)));
  if (args.needs(2)) result[2] = channel_sums(g, kSpatial, args.wanted(2));
  return result;
}

// --- descriptors

template <std::size_t kSpatial>
std::vector<Sample<ConvOptions>> conv_samples() {
  if constexpr (kSpatial == 1) {
    return {{{real({2, 3, 7}), real({4, 3, 3}), real({4})}, {{2}, 1}},
            {{real({4, 8}), real({6, 2, 2}), absent()}, {{1}, "same", {3}, 2}},
            {{real({0, 2, 5}), real({3, 2, 3}), real({3})}, {}}};
  } else if constexpr (kSpatial == 2) {
    return {{{real({2, 3, 5, 4}), real({4, 3, 3, 2}), real({4})}, {{2, 1}, {1, 0}}},
            {{real({1, 3, 5, 6}), real({6, 1, 3, 3}), real({6})}, {{1}, 1, {1, 2}, 3}},
            {{real({2, 3, 3, 2}), real({2, 3, 1, 1}), absent()}, {{1}, "valid"}},
            {{real({4, 5, 3}), real({2, 2, 2, 3}), absent()}, {{1}, "same", {1}, 2}}};
  } else {
    return {{{real({1, 2, 4, 3, 3}), real({2, 2, 2, 3, 1}), real({2})}, {{2, 1, 1}, {0, 1, 2}}},
            {{real({2, 2, 3, 3, 2}), real({4, 1, 2, 2, 2}), absent()}, {{1}, 1, {2, 1, 1}, 2}}};
  }
}
template <std::size_t kSpatial>
std::vector<Sample<ConvTransposeOptions>> transpose_samples() {
  if constexpr (kSpatial == 1) {
    return {{{real({2, 3, 4}), real({3, 2, 3}), real({2})}, {{2}, {1}, {1}}},
            {{real({4, 3}), real({4, 3, 2}), absent()}, {{3}, {0}, {2}, 2, {2}}}};
  } else if constexpr (kSpatial == 2) {
    return {{{real({2, 3, 3, 2}), real({3, 2, 3, 2}), real({2})}, {{2, 1}, {1, 0}, {1, 0}}},
            {{real({1, 4, 3, 3}), real({4, 1, 2, 3}), real({2})}, {{1}, {0, 1}, {0}, 2, {1, 2}}},
            {{real({0, 2, 3, 3}), real({2, 3, 2, 2}), absent()}, {}}};
  } else {
    return {{{real({1, 2, 2, 3, 2}), real({2, 2, 2, 1, 3}), real({2})}, {{2, 1, 1}, {0, 0, 1}, {1, 0, 0}}}};
  }
}

template <std::size_t kSpatial>
constexpr Op<ConvOptions> kConv = plain_op<ConvOptions>(kNames[kSpatial - 1], Category::lower_precision,
                                                        conv_samples<kSpatial>, forward<kSpatial>,
                                                        vjp<kSpatial>, save_factors(0, 1), tensor_set(2));
template <std::size_t kSpatial>
constexpr Op<ConvTransposeOptions> kConvTranspose = plain_op<ConvTransposeOptions>(
    kTransposeNames[kSpatial - 1], Category::lower_precision, transpose_samples<kSpatial>,
    transpose_forward<kSpatial>, transpose_vjp<kSpatial>, save_factors(0, 1), tensor_set(2));

const Registered convolution_registered{kConv<1>,          kConv<2>,          kConv<3>,
                                        kConvTranspose<1>, kConvTranspose<2>, kConvTranspose<3>};

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return bind(kConv<1>, {x, weight, bias}, options);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return bind(kConv<2>, {x, weight, bias}, options);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return bind(kConv<3>, {x, weight, bias}, options);
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return bind(kConvTranspose<1>, {x, weight, bias}, options);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return bind(kConvTranspose<2>, {x, weight, bias}, options);
}
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return bind(kConvTranspose<3>, {x, weight, bias}, options);
}

bool allow_winograd() noexcept { return kernels::allow_winograd(); }
void set_allow_winograd(bool allow) noexcept {
  kernels::winograd_is_allowed.store(allow, std::memory_order_relaxed);
}

}  // namespace mezzo
