// Pooling layers over 1 to 3 spatial dims. The functions, their windows, dtypes and errors are in
// ops/pooling.h; names and defaults are those of torch.nn.
#pragma once

#include <optional>

#include "mezzo/nn/module.h"
#include "mezzo/ops/pooling.h"

namespace mezzo::nn {

// Common to all: x is [N, C, kSpatial dims] or [C, kSpatial dims]. Constructors throw ValueError for sizes
// that are too small and lists of the wrong length, forward what the function throws.

/// Options of MaxPool1d, MaxPool2d and MaxPool3d.
struct MaxPoolLayerOptions {
  SpatialSizes stride = {};  ///< kernel_size
  SpatialSizes padding = 0, dilation = 1;
  bool ceil_mode = false;
};

/// `max_pool1d`, `max_pool2d` or `max_pool3d`: the largest element of each window.
template <int kSpatial>
class MaxPool final : public Layer {
 public:
  using Options = MaxPoolLayerOptions;
  explicit MaxPool(const SpatialSizes& kernel_size, const MaxPoolLayerOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  /// forward with the place of each element (torch's return_indices).
  [[nodiscard]] ValuesIndices forward_with_indices(const Tensor& x);
  [[nodiscard]] std::string type_name() const override { return "MaxPool" + std::to_string(kSpatial) + "d"; }
  [[nodiscard]] std::string extra_repr() const override;

 private:
  MaxPoolOptions options_;
};

/// Options of MaxUnpool1d, MaxUnpool2d and MaxUnpool3d.
struct MaxUnpoolLayerOptions {
  SpatialSizes stride = {};  ///< kernel_size
  SpatialSizes padding = 0;
};

/// `max_unpool1d`, `max_unpool2d` or `max_unpool3d`: elements back where MaxPool found them.
template <int kSpatial>
class MaxUnpool final : public Module {
 public:
  using Options = MaxUnpoolLayerOptions;
  explicit MaxUnpool(const SpatialSizes& kernel_size, const MaxUnpoolLayerOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& x, const Tensor& indices,
                               const SpatialSizes& output_size = {}) const;
  [[nodiscard]] std::string type_name() const override {
    return "MaxUnpool" + std::to_string(kSpatial) + "d";
  }
  [[nodiscard]] std::string extra_repr() const override;

 private:
  MaxUnpoolOptions options_;
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
class AvgPool final : public Layer {
 public:
  using Options = AvgPoolLayerOptions;
  explicit AvgPool(const SpatialSizes& kernel_size, const AvgPoolLayerOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override { return "AvgPool" + std::to_string(kSpatial) + "d"; }
  [[nodiscard]] std::string extra_repr() const override;

 private:
  AvgPoolOptions options_;
};

/// `adaptive_max_pool1d`, `adaptive_max_pool2d` or `adaptive_max_pool3d`: the largest elements of windows
/// that share the input out.
template <int kSpatial>
class AdaptiveMaxPool final : public Layer {
 public:
  explicit AdaptiveMaxPool(const AdaptiveSizes& output_size);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  /// forward with the place of each element (torch's return_indices).
  [[nodiscard]] ValuesIndices forward_with_indices(const Tensor& x);
  [[nodiscard]] std::string type_name() const override {
    return "AdaptiveMaxPool" + std::to_string(kSpatial) + "d";
  }
  [[nodiscard]] std::string extra_repr() const override;

 private:
  AdaptiveSizes output_size_;
};

/// `adaptive_avg_pool1d`, `adaptive_avg_pool2d` or `adaptive_avg_pool3d`: the means of such windows.
template <int kSpatial>
class AdaptiveAvgPool final : public Layer {
 public:
  explicit AdaptiveAvgPool(const AdaptiveSizes& output_size);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override {
    return "AdaptiveAvgPool" + std::to_string(kSpatial) + "d";
  }
  [[nodiscard]] std::string extra_repr() const override;

 private:
  AdaptiveSizes output_size_;
};

extern template class MaxPool<1>;
extern template class MaxPool<2>;
extern template class MaxPool<3>;
extern template class MaxUnpool<1>;
extern template class MaxUnpool<2>;
extern template class MaxUnpool<3>;
extern template class AvgPool<1>;
extern template class AvgPool<2>;
extern template class AvgPool<3>;
extern template class AdaptiveMaxPool<1>;
extern template class AdaptiveMaxPool<2>;
extern template class AdaptiveMaxPool<3>;
extern template class AdaptiveAvgPool<1>;
extern template class AdaptiveAvgPool<2>;
extern template class AdaptiveAvgPool<3>;

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
