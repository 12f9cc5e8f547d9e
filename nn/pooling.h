// Pooling layers over 1 to 3 spatial dims. The functions, their windows, dtypes and errors are in
// ops/pooling.h; names and defaults are those of torch.nn.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "mezzo/nn/module.h"
#include "mezzo/ops/pooling.h"

namespace mezzo::nn {

// Common to all: x is [N, C, kSpatial dims] or [C, kSpatial dims]. Constructors throw ValueError for sizes
// that are too small and lists of the wrong length, forward what the function throws.

namespace detail {

/// Base of layers of windows, Layer or Module: `Windows` are the options of their function.
template <class Base, class Windows>
class WindowLayer : public Base {
 public:
  [[nodiscard]] std::string type_name() const override { return name_ + std::to_string(spatial_) + "d"; }
  [[nodiscard]] std::string extra_repr() const override;

 protected:
  /// Without a stride it is kernel_size.
  WindowLayer(const char* name, int spatial, const Windows& windows);
  [[nodiscard]] const Windows& windows() const noexcept { return windows_; }

 private:
  const char* name_;
  int spatial_;
  Windows windows_;
};

/// Base of layers whose windows share the input out.
class AdaptivePoolLayer : public Layer {
 public:
  [[nodiscard]] std::string type_name() const override { return name_ + std::to_string(spatial_) + "d"; }
  [[nodiscard]] std::string extra_repr() const override;

 protected:
  AdaptivePoolLayer(const char* name, int spatial, const AdaptiveSizes& output_size);
  [[nodiscard]] const AdaptiveSizes& output_size() const noexcept { return output_size_; }

 private:
  const char* name_;
  int spatial_;
  AdaptiveSizes output_size_;
};

// The functions by the number of spatial dims.
template <class Options>
using PoolFunction = Tensor (*)(const Tensor&, const Options&);
inline constexpr std::array<PoolFunction<MaxPoolOptions>, 3> kMaxPool{max_pool1d, max_pool2d, max_pool3d};
inline constexpr std::array kMaxPoolWithIndices{max_pool1d_with_indices, max_pool2d_with_indices,
                                                max_pool3d_with_indices};
inline constexpr std::array kMaxUnpool{max_unpool1d, max_unpool2d, max_unpool3d};
inline constexpr std::array<PoolFunction<AvgPoolOptions>, 3> kAvgPool{avg_pool1d, avg_pool2d, avg_pool3d};
inline constexpr std::array kAdaptiveMaxPool{adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d};
inline constexpr std::array kAdaptiveMaxPoolWithIndices{
    adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices};
inline constexpr std::array kAdaptiveAvgPool{adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d};

}  // namespace detail

/// Options of MaxPool1d, MaxPool2d and MaxPool3d.
struct MaxPoolLayerOptions {
  SpatialSizes stride = {};  ///< kernel_size
  SpatialSizes padding = 0, dilation = 1;
  bool ceil_mode = false;
};

/// `max_pool1d`, `max_pool2d` or `max_pool3d`: the largest element of each window.
template <int kSpatial>
class MaxPool final : public detail::WindowLayer<Layer, MaxPoolOptions> {
 public:
  using Options = MaxPoolLayerOptions;
  explicit MaxPool(const SpatialSizes& kernel_size, const MaxPoolLayerOptions& options = {})
      : WindowLayer("MaxPool", kSpatial,
                    {.kernel_size = kernel_size,
                     .stride = options.stride,
                     .padding = options.padding,
                     .dilation = options.dilation,
                     .ceil_mode = options.ceil_mode}) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override {
    return detail::kMaxPool[kSpatial - 1](x, windows());
  }
  /// forward with the place of each element (torch's return_indices).
  [[nodiscard]] ValuesIndices forward_with_indices(const Tensor& x) {
    return detail::kMaxPoolWithIndices[kSpatial - 1](x, windows());
  }
};

/// Options of MaxUnpool1d, MaxUnpool2d and MaxUnpool3d.
struct MaxUnpoolLayerOptions {
  SpatialSizes stride = {};  ///< kernel_size
  SpatialSizes padding = 0;
};

/// `max_unpool1d`, `max_unpool2d` or `max_unpool3d`: elements back where MaxPool found them.
template <int kSpatial>
class MaxUnpool final : public detail::WindowLayer<Module, MaxUnpoolOptions> {
 public:
  using Options = MaxUnpoolLayerOptions;
  explicit MaxUnpool(const SpatialSizes& kernel_size, const MaxUnpoolLayerOptions& options = {})
      : WindowLayer("MaxUnpool", kSpatial,
                    {.kernel_size = kernel_size, .stride = options.stride, .padding = options.padding}) {}
  [[nodiscard]] Tensor forward(const Tensor& x, const Tensor& indices,
                               const SpatialSizes& output_size = {}) const {
    MaxUnpoolOptions options = windows();
    options.output_size = output_size;
    return detail::kMaxUnpool[kSpatial - 1](x, indices, options);
  }
};

/// Options of AvgPool1d, AvgPool2d and AvgPool3d; see ops/pooling.h.
struct AvgPoolLayerOptions {
  SpatialSizes stride = {};  ///< kernel_size
  SpatialSizes padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::optional<std::int64_t> divisor_override = {};
};

/// `avg_pool1d`, `avg_pool2d` or `avg_pool3d`: the mean of each window.
template <int kSpatial>
class AvgPool final : public detail::WindowLayer<Layer, AvgPoolOptions> {
 public:
  using Options = AvgPoolLayerOptions;
  explicit AvgPool(const SpatialSizes& kernel_size, const AvgPoolLayerOptions& options = {})
      : WindowLayer("AvgPool", kSpatial,
                    {.kernel_size = kernel_size,
                     .stride = options.stride,
                     .padding = options.padding,
                     .ceil_mode = options.ceil_mode,
                     .count_include_pad = options.count_include_pad,
                     .divisor_override = options.divisor_override}) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override {
    return detail::kAvgPool[kSpatial - 1](x, windows());
  }
};

/// `adaptive_max_pool1d`, `adaptive_max_pool2d` or `adaptive_max_pool3d`: the largest elements of windows
/// that share the input out.
template <int kSpatial>
class AdaptiveMaxPool final : public detail::AdaptivePoolLayer {
 public:
  explicit AdaptiveMaxPool(const AdaptiveSizes& output_size)
      : AdaptivePoolLayer("AdaptiveMaxPool", kSpatial, output_size) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override {
    return detail::kAdaptiveMaxPool[kSpatial - 1](x, output_size());
  }
  /// forward with the place of each element (torch's return_indices).
  [[nodiscard]] ValuesIndices forward_with_indices(const Tensor& x) {
    return detail::kAdaptiveMaxPoolWithIndices[kSpatial - 1](x, output_size());
  }
};

/// `adaptive_avg_pool1d`, `adaptive_avg_pool2d` or `adaptive_avg_pool3d`: the means of such windows.
template <int kSpatial>
class AdaptiveAvgPool final : public detail::AdaptivePoolLayer {
 public:
  explicit AdaptiveAvgPool(const AdaptiveSizes& output_size)
      : AdaptivePoolLayer("AdaptiveAvgPool", kSpatial, output_size) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override {
    return detail::kAdaptiveAvgPool[kSpatial - 1](x, output_size());
  }
};

using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;
using MaxUnpool1d = MaxUnpool<1>;
using MaxUnpool2d = MaxUnpool<2>;
using MaxUnpool3d = MaxUnpool<3>;
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

}  // namespace mezzo::nn
