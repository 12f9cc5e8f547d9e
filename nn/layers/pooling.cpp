// Pooling layers check their sizes when they are made. Forward picks the op by the number of spatial dims.
#include "mezzo/nn/pooling.h"

namespace mezzo::nn {

namespace {

/// `sizes` unchanged, after a check that they fit so many spatial dims.
const SpatialSizes& checked(const Module& layer, const char* what, const SpatialSizes& sizes, int spatial,
                            std::int64_t least) {
  static_cast<void>(ops::per_dim(layer.type_name(), what, sizes, static_cast<std::size_t>(spatial), least));
  return sizes;
}

/// "stride=2", or "stride=[2, 1]" where the dims differ.
std::string named(const char* name, const SpatialSizes& sizes) {
  return std::string(name) + "=" + (sizes.size() == 1 ? std::to_string(sizes[0]) : to_string(sizes));
}

/// `sizes` of an adaptive pooling after that check; kKeepSize stands for the input's size.
const AdaptiveSizes& checked(const Module& layer, const AdaptiveSizes& sizes, int spatial) {
  SpatialSizes given = static_cast<const Dims&>(sizes);
  for (std::int64_t& size : given) size = size == kKeepSize ? 0 : size;
  static_cast<void>(checked(layer, "output_size", given, spatial, 0));
  return sizes;
}

std::string output_size_text(const AdaptiveSizes& sizes) {
  std::string text;
  for (const std::int64_t size : sizes)
    text += (text.empty() ? "" : ", ") + (size == kKeepSize ? std::string("None") : std::to_string(size));
  return "output_size=" + (sizes.size() == 1 ? text : "[" + text + "]");
}

/// Fills in what the options of all kinds of windows have.
template <class Options, class LayerOptions>
void set_windows(Options& result, const Module& layer, const SpatialSizes& kernel_size,
                 const LayerOptions& options, int spatial) {
  result.kernel_size = checked(layer, "kernel_size", kernel_size, spatial, 1);
  result.stride = options.stride.empty() ? kernel_size : checked(layer, "stride", options.stride, spatial, 1);
  result.padding = checked(layer, "padding", options.padding, spatial, 0);
  if constexpr (requires { options.ceil_mode; }) result.ceil_mode = options.ceil_mode;
}

template <class Options>
std::string windows_text(const Options& options) {
  return named("kernel_size", options.kernel_size) + ", " + named("stride", options.stride) + ", " +
         named("padding", options.padding);
}

template <class Options>
using PoolFunction = Tensor (*)(const Tensor&, const Options&);
constexpr std::array<PoolFunction<MaxPoolOptions>, 3> kMax{max_pool1d, max_pool2d, max_pool3d};
constexpr std::array kMaxWithIndices{max_pool1d_with_indices, max_pool2d_with_indices,
                                     max_pool3d_with_indices};
constexpr std::array kMaxUnpool{max_unpool1d, max_unpool2d, max_unpool3d};
constexpr std::array<PoolFunction<AvgPoolOptions>, 3> kMean{avg_pool1d, avg_pool2d, avg_pool3d};
constexpr std::array kAdaptiveMax{adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d};
constexpr std::array kAdaptiveMaxWithIndices{
    adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices};
constexpr std::array kAdaptiveMean{adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d};

}  // namespace

template <int kSpatial>
MaxPool<kSpatial>::MaxPool(const SpatialSizes& kernel_size, const MaxPoolLayerOptions& options) {
  set_windows(options_, *this, kernel_size, options, kSpatial);
  options_.dilation = checked(*this, "dilation", options.dilation, kSpatial, 1);
}
template <int kSpatial>
Tensor MaxPool<kSpatial>::forward(const Tensor& x) {
  return kMax[kSpatial - 1](x, options_);
}
template <int kSpatial>
ValuesIndices MaxPool<kSpatial>::forward_with_indices(const Tensor& x) {
  return kMaxWithIndices[kSpatial - 1](x, options_);
}
template <int kSpatial>
std::string MaxPool<kSpatial>::extra_repr() const {
  return windows_text(options_) + ", " + named("dilation", options_.dilation) +
         ", ceil_mode=" + (options_.ceil_mode ? "true" : "false");
}

template <int kSpatial>
MaxUnpool<kSpatial>::MaxUnpool(const SpatialSizes& kernel_size, const MaxUnpoolLayerOptions& options) {
  set_windows(options_, *this, kernel_size, options, kSpatial);
}
template <int kSpatial>
Tensor MaxUnpool<kSpatial>::forward(const Tensor& x, const Tensor& indices,
                                    const SpatialSizes& output_size) const {
  MaxUnpoolOptions options = options_;
  options.output_size = output_size;
  return kMaxUnpool[kSpatial - 1](x, indices, options);
}
template <int kSpatial>
std::string MaxUnpool<kSpatial>::extra_repr() const {
  return windows_text(options_);
}

template <int kSpatial>
AvgPool<kSpatial>::AvgPool(const SpatialSizes& kernel_size, const AvgPoolLayerOptions& options) {
  set_windows(options_, *this, kernel_size, options, kSpatial);
  options_.count_include_pad = options.count_include_pad;
  options_.divisor_override = options.divisor_override;
}
template <int kSpatial>
Tensor AvgPool<kSpatial>::forward(const Tensor& x) {
  return kMean[kSpatial - 1](x, options_);
}
template <int kSpatial>
std::string AvgPool<kSpatial>::extra_repr() const {
  return windows_text(options_);
}

template <int kSpatial>
AdaptiveMaxPool<kSpatial>::AdaptiveMaxPool(const AdaptiveSizes& output_size)
    : output_size_(checked(*this, output_size, kSpatial)) {}
template <int kSpatial>
Tensor AdaptiveMaxPool<kSpatial>::forward(const Tensor& x) {
  return kAdaptiveMax[kSpatial - 1](x, output_size_);
}
template <int kSpatial>
ValuesIndices AdaptiveMaxPool<kSpatial>::forward_with_indices(const Tensor& x) {
  return kAdaptiveMaxWithIndices[kSpatial - 1](x, output_size_);
}
template <int kSpatial>
std::string AdaptiveMaxPool<kSpatial>::extra_repr() const {
  return output_size_text(output_size_);
}

template <int kSpatial>
AdaptiveAvgPool<kSpatial>::AdaptiveAvgPool(const AdaptiveSizes& output_size)
    : output_size_(checked(*this, output_size, kSpatial)) {}
template <int kSpatial>
Tensor AdaptiveAvgPool<kSpatial>::forward(const Tensor& x) {
  return kAdaptiveMean[kSpatial - 1](x, output_size_);
}
template <int kSpatial>
std::string AdaptiveAvgPool<kSpatial>::extra_repr() const {
  return output_size_text(output_size_);
}

template class MaxPool<1>;
template class MaxPool<2>;
template class MaxPool<3>;
template class MaxUnpool<1>;
template class MaxUnpool<2>;
template class MaxUnpool<3>;
template class AvgPool<1>;
template class AvgPool<2>;
template class AvgPool<3>;
template class AdaptiveMaxPool<1>;
template class AdaptiveMaxPool<2>;
template class AdaptiveMaxPool<3>;
template class AdaptiveAvgPool<1>;
template class AdaptiveAvgPool<2>;
template class AdaptiveAvgPool<3>;

}  // namespace mezzo::nn
