// Pooling layers check their sizes when they are made, and print them.
#include "mezzo/nn/pooling.h"

#include "mezzo/nn/layers/layer_support.h"

namespace mezzo::nn {

namespace {

/// Checks that `sizes` fit so many spatial dims.
void check(const Module& layer, const char* what, const Dims& sizes, int spatial, std::int64_t least) {
  static_cast<void>(ops::per_dim(layer.type_name(), what, sizes, static_cast<std::size_t>(spatial), least));
}

/// "stride=2", or "stride=[2, 1]" where the dims differ.
std::string named(const char* name, const SpatialSizes& sizes) {
  return std::string(name) + "=" + (sizes.size() == 1 ? std::to_string(sizes[0]) : to_string(sizes));
}

}  // namespace

namespace detail {

template <class Base, class Windows>
WindowLayer<Base, Windows>::WindowLayer(const char* name, int spatial, const Windows& windows)
    : name_(name), spatial_(spatial), windows_(windows) {
  check(*this, "kernel_size", windows.kernel_size, spatial, 1);
  if (windows.stride.empty())
    windows_.stride = windows.kernel_size;
  else
    check(*this, "stride", windows.stride, spatial, 1);
  check(*this, "padding", windows.padding, spatial, 0);
  if constexpr (requires { windows.dilation; }) check(*this, "dilation", windows.dilation, spatial, 1);
}

template <class Base, class Windows>
std::string WindowLayer<Base, Windows>::extra_repr() const {
  std::string text = named("kernel_size", windows_.kernel_size) + ", " + named("stride", windows_.stride) +
                     ", " + named("padding", windows_.padding);
  if constexpr (requires(const Windows& windows) { windows.dilation; })
    text += ", " + named("dilation", windows_.dilation) + ", ceil_mode=" + bool_text(windows_.ceil_mode);
  return text;
}

template class WindowLayer<Layer, MaxPoolOptions>;
template class WindowLayer<Module, MaxUnpoolOptions>;
template class WindowLayer<Layer, AvgPoolOptions>;

AdaptivePoolLayer::AdaptivePoolLayer(const char* name, int spatial, const AdaptiveSizes& output_size)
    : name_(name), spatial_(spatial), output_size_(output_size) {
  Dims given = output_size;
  for (std::int64_t& size : given) size = size == kKeepSize ? 0 : size;
  check(*this, "output_size", given, spatial, 0);
}

std::string AdaptivePoolLayer::extra_repr() const {
  std::string text;
  for (const std::int64_t size : output_size_)
    text += (text.empty() ? "" : ", ") + (size == kKeepSize ? std::string("None") : std::to_string(size));
  return "output_size=" + (output_size_.size() == 1 ? text : "[" + text + "]");
}

}  // namespace detail

}  // namespace mezzo::nn
