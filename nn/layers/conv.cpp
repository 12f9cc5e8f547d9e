// The checks, weights and printing that all convolution layers share. Forward picks the op by the number
// of spatial dims. A padding mode other than zeros calls `pad` before it.
#include "mezzo/nn/conv.h"

#include "mezzo/core/error.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/layers/layer_support.h"

namespace mezzo::nn {

namespace {

void check_channels(const std::string& layer, const char* what, std::int64_t channels, std::int64_t groups) {
  detail::at_least_one(layer, what, channels);
  if (groups < 1 || channels % groups != 0) {
    throw ValueError(layer, "groups that divide " + std::string(what) + " = " + std::to_string(channels),
                     std::to_string(groups), "each group has as many channels as the others");
  }
}

/// [out, in / groups, kernel...], transposed [in, out / groups, kernel...].
template <class Config>
Shape weight_shape(const Config& config) {
  Shape shape{config.out_channels, config.in_channels};
  if (config.is_transposed) std::swap(shape[0], shape[1]);
  shape[1] /= config.groups;
  for (const std::int64_t size : config.kernel_size) shape.push_back(size);
  return shape;
}

/// The padding as `pad` takes it: a pair for each dim, the last one first.
template <class Config>
IntList borders(const Config& config) {
  IntList result;
  for (std::size_t d = config.spatial; d-- > 0;) {
    const std::int64_t both = config.padding.is_same() ? config.dilation[d] * (config.kernel_size[d] - 1)
                                                       : 2 * config.padding.sizes()[d];
    result.push_back(both / 2);
    result.push_back(both - both / 2);
  }
  return result;
}

/// A constructor's arguments as a Config. `Options`: of Conv or of ConvTranspose.
template <class Config, class Options>
Config config_of(const std::string& kind, std::size_t spatial, std::int64_t in_channels,
                 std::int64_t out_channels, const SpatialSizes& kernel_size, const Options& options) {
  Config config{.name = kind + std::to_string(spatial) + "d",
                .spatial = spatial,
                .in_channels = in_channels,
                .out_channels = out_channels,
                .kernel_size = kernel_size,
                .stride = options.stride,
                .padding = options.padding,
                .dilation = options.dilation,
                .groups = options.groups,
                .bias = options.bias,
                .dtype = options.dtype,
                .device = options.device,
                .generator = options.generator};
  if constexpr (requires { options.output_padding; }) {
    config.is_transposed = true;
    config.output_padding = options.output_padding;
  } else {
    config.padding_mode = options.padding_mode;
  }
  return config;
}

constexpr std::array kConvolutions{conv1d, conv2d, conv3d};
constexpr std::array kTransposed{conv_transpose1d, conv_transpose2d, conv_transpose3d};

}  // namespace

// --- what they share

ConvLayer::Config ConvLayer::checked(Config config) {
  const auto each = [&](const char* what, const Dims& sizes, std::int64_t least) {
    return ops::per_dim(config.name, what, sizes, config.spatial, least);
  };
  check_channels(config.name, "in_channels", config.in_channels, config.groups);
  check_channels(config.name, "out_channels", config.out_channels, config.groups);
  config.kernel_size = each("kernel_size", config.kernel_size, 1);
  config.stride = each("stride", config.stride, 1);
  config.dilation = each("dilation", config.dilation, 1);
  config.output_padding = each("output_padding", config.output_padding, 0);
  if (!config.padding.is_same()) {
    config.padding = each("padding", config.padding.sizes(), 0);
  } else if (config.stride != Dims(config.spatial, 1)) {
    throw ValueError(config.name, "strides of 1 with padding \"same\"", to_string(config.stride),
                     "give the padding in numbers");
  }
  return config;
}

ConvLayer::ConvLayer(const Config& config)
    : weight(*this, "weight", detail::unfilled(true, weight_shape(config), config)),
      bias(*this, "bias", detail::unfilled(config.bias, {config.out_channels}, config)),
      config_(config) {
  reset_parameters(detail::or_default(config_.generator));
}

ConvLayer::ConvLayer(const ConvLayer& original, ShareTensors /*tag*/)
    : weight(*this, "weight", original.weight),
      bias(*this, "bias", original.bias),
      config_(original.config_) {}

void ConvLayer::reset_parameters(Generator& generator) {
  detail::fill_uniform(weight, bias, init::fans(weight->shape()).in, generator);
}

void ConvLayer::require_channels(const Tensor& x) const {
  if (!x.defined()) return;  // the op refuses undefined tensors
  const auto spatial = static_cast<std::int64_t>(config_.spatial);
  const bool is_image = x.dim() == spatial + 1 || x.dim() == spatial + 2;
  if (is_image && x.size(-spatial - 1) == in_channels()) return;
  const std::string image = std::to_string(in_channels()) + ", " + std::to_string(spatial) + " spatial dims]";
  throw ShapeError(described(), "an input [N, " + image + " or [" + image, to_string(x.shape()),
                   "check the layer before, or this one's in_channels");
}

std::string ConvLayer::extra_repr() const {
  const Dims zeros(config_.spatial, 0);
  std::string text = std::to_string(in_channels()) + ", " + std::to_string(out_channels()) +
                     ", kernel_size=" + to_string(kernel_size()) + ", stride=" + to_string(config_.stride);
  if (config_.padding.is_same())
    text += ", padding=same";
  else if (config_.padding.sizes() != zeros)
    text += ", padding=" + to_string(config_.padding.sizes());
  if (config_.dilation != Dims(config_.spatial, 1)) text += ", dilation=" + to_string(config_.dilation);
  if (config_.output_padding != zeros) text += ", output_padding=" + to_string(config_.output_padding);
  if (config_.groups != 1) text += ", groups=" + std::to_string(config_.groups);
  if (!bias.defined()) text += ", bias=false";
  if (config_.padding_mode != PadMode::constant)
    text +=
        ", padding_mode=" + std::string(kEnumNames<PadMode>[static_cast<std::size_t>(config_.padding_mode)]);
  return text;
}

// --- the layers

template <int kSpatial>
Conv<kSpatial>::Conv(std::int64_t in_channels, std::int64_t out_channels, const SpatialSizes& kernel_size,
                     const ConvLayerOptions& options)
    : ConvLayer(
          checked(config_of<Config>("Conv", kSpatial, in_channels, out_channels, kernel_size, options))) {}

template <int kSpatial>
Tensor Conv<kSpatial>::forward(const Tensor& x) {
  require_channels(x);
  const Config& c = config();
  const bool zeros = c.padding_mode == PadMode::constant;
  return kConvolutions[kSpatial - 1](zeros ? x : pad(x, borders(c), c.padding_mode), computed_weight(), bias,
                                     {.stride = c.stride,
                                      .padding = zeros ? c.padding : ConvPadding(0),
                                      .dilation = c.dilation,
                                      .groups = c.groups});
}

template <int kSpatial>
ConvTranspose<kSpatial>::ConvTranspose(std::int64_t in_channels, std::int64_t out_channels,
                                       const SpatialSizes& kernel_size,
                                       const ConvTransposeLayerOptions& options)
    : ConvLayer(checked(
          config_of<Config>("ConvTranspose", kSpatial, in_channels, out_channels, kernel_size, options))) {}

template <int kSpatial>
Tensor ConvTranspose<kSpatial>::forward(const Tensor& x) {
  require_channels(x);
  return transposed(x, config().output_padding);
}

template <int kSpatial>
Tensor ConvTranspose<kSpatial>::forward(const Tensor& x, const SpatialSizes& output_size) {
  require_channels(x);
  const Config& c = config();
  const Dims wanted = ops::per_dim(c.name, "output_size", output_size, c.spatial, 0);
  if (!x.defined()) return transposed(x, c.output_padding);  // which refuses it
  Dims extra, least;
  bool fits = true;
  for (std::size_t d = 0; d < c.spatial; ++d) {
    const std::int64_t input = x.size(static_cast<std::int64_t>(d) - kSpatial);
    least.push_back(ops::kernel_reach(std::max<std::int64_t>(input, 1), c.stride[d]) -
                    2 * c.padding.sizes()[d] + ops::kernel_reach(c.kernel_size[d], c.dilation[d]) - 1);
    extra.push_back(wanted[d] - least[d]);
    fits = fits && extra[d] >= 0 && extra[d] < c.stride[d];
  }
  if (fits) return transposed(x, extra);
  throw ShapeError(described(),
                   "an output_size from " + to_string(least) + " on, by less than the strides " +
                       to_string(c.stride) + " more",
                   to_string(wanted), "take the size of the image that was convolved");
}

template <int kSpatial>
Tensor ConvTranspose<kSpatial>::transposed(const Tensor& x, const Dims& output_padding) const {
  const Config& c = config();
  return kTransposed[kSpatial - 1](x, computed_weight(), bias,
                                   {.stride = c.stride,
                                    .padding = c.padding.sizes(),
                                    .output_padding = output_padding,
                                    .groups = c.groups,
                                    .dilation = c.dilation});
}

template class Conv<1>;
template class Conv<2>;
template class Conv<3>;
template class ConvTranspose<1>;
template class ConvTranspose<2>;
template class ConvTranspose<3>;

}  // namespace mezzo::nn
