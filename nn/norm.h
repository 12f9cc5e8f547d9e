// Normalization layers. The functions, their formulas, dtypes and errors are in ops/norm.h. Names, state
// dicts and defaults are those of torch.nn; weights begin as ones and biases as zeros.
#pragma once

#include <optional>

#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// Options of LayerNorm.
struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  ///< have weight and bias
  bool bias = true;                ///< have a bias, if affine
  DType dtype = DType::f32;
  Device device = Device::cpu();
};

/// `layer_norm` over the last dims, of sizes `normalized_shape`, which is the shape of weight and bias.
/// Throws: ValueError for no dims or sizes below 1; forward throws ShapeError, naming the layer's path, when
/// x does not end so.
class LayerNorm : public Layer {
 public:
  using Options = LayerNormOptions;
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  /// Over the last dim.
  explicit LayerNorm(std::int64_t size, const LayerNormOptions& options = {});
  LayerNorm(const LayerNorm& original, ShareTensors);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  void reset_parameters();
  [[nodiscard]] const Shape& normalized_shape() const noexcept { return normalized_shape_; }
  [[nodiscard]] double eps() const noexcept { return eps_; }
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;
  Param bias;

 protected:
  /// Throws: ShapeError unless x's shape ends with normalized_shape.
  void require_shape(const Tensor& x) const;

 private:
  Shape normalized_shape_;
  double eps_;
};

/// Options of RMSNorm.
struct RMSNormOptions {
  std::optional<double> eps = {};  ///< the epsilon of x's dtype, for 16-bit x of f32
  bool elementwise_affine = true;  ///< have a weight
  DType dtype = DType::f32;
  Device device = Device::cpu();
};

/// `rms_norm` over the last dims; otherwise as LayerNorm.
class RMSNorm : public Layer {
 public:
  using Options = RMSNormOptions;
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options = {});
  /// Over the last dim.
  explicit RMSNorm(std::int64_t size, const RMSNormOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  void reset_parameters();
  [[nodiscard]] const Shape& normalized_shape() const noexcept { return normalized_shape_; }
  [[nodiscard]] std::optional<double> eps() const noexcept { return eps_; }
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;

 private:
  Shape normalized_shape_;
  std::optional<double> eps_;
};

/// Options of GroupNorm.
struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;  ///< have weight and bias
  bool bias = true;    ///< have a bias, if affine
  DType dtype = DType::f32;
  Device device = Device::cpu();
};

/// `group_norm` of x [N, C, ...] in num_groups groups of its num_channels channels; weight and bias [C].
/// Throws: ValueError for sizes below 1 and groups that do not divide the channels; forward throws
/// ShapeError, naming the layer's path, for another number of channels.
class GroupNorm : public Layer {
 public:
  using Options = GroupNormOptions;
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, const GroupNormOptions& options = {});
  GroupNorm(const GroupNorm& original, ShareTensors);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  void reset_parameters();
  [[nodiscard]] std::int64_t num_groups() const noexcept { return num_groups_; }
  [[nodiscard]] std::int64_t num_channels() const noexcept { return num_channels_; }
  [[nodiscard]] double eps() const noexcept { return eps_; }
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;
  Param bias;

 protected:
  /// Throws: ShapeError unless x has num_channels channels.
  void require_channels(const Tensor& x) const;

 private:
  std::int64_t num_groups_, num_channels_;
  double eps_;
};

/// Options of BatchNorm and of InstanceNorm, which has neither parameters nor running statistics unless told
/// to.
template <bool has_both>
struct RunningNormOptionsOf {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< nullopt: the mean over all batches so far, which the host counts
  bool affine = has_both;                ///< have weight and bias
  bool bias = true;                      ///< have a bias, if affine
  bool track_running_stats = has_both;   ///< have running_mean, running_var, num_batches_tracked
  DType dtype = DType::f32;
  Device device = Device::cpu();
};
using RunningNormOptions = RunningNormOptionsOf<true>;
using InstanceNormOptions = RunningNormOptionsOf<false>;

/// Base of BatchNorm and InstanceNorm: parameters, running statistics, and their way to the op. Where a
/// batch's statistics of a channel are inf or NaN, the channel's running statistics stay (in PyTorch they are
/// NaN from then on).
class RunningNorm : public Layer {
 public:
  using Options = RunningNormOptions;
  [[nodiscard]] std::int64_t num_features() const noexcept { return num_features_; }
  /// Statistics as at the start: mean 0, variance 1, no batches.
  void reset_running_stats();
  /// Sets running statistics, weight and bias to their first values.
  void reset_parameters();
  /// How far a batch moves the running statistics, as Options::momentum.
  [[nodiscard]] std::optional<double> momentum() const noexcept { return momentum_; }
  void set_momentum(std::optional<double> momentum) noexcept { momentum_ = momentum; }
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;
  Param bias;
  Buffer running_mean;
  Buffer running_var;
  Buffer num_batches_tracked;  ///< i64, 0-dim

 protected:
  /// Throws: ValueError for num_features below 1.
  template <bool has_both>
  RunningNorm(std::string_view name, std::int64_t num_features,
              const RunningNormOptionsOf<has_both>& options);
  RunningNorm(const RunningNorm& original, ShareTensors);
  /// Counts a batch in training, and gives the momentum with which it moves the running statistics.
  [[nodiscard]] double next_momentum();
  /// Whether this batch's own statistics count.
  [[nodiscard]] bool uses_batch() const { return is_training() || !running_mean.defined(); }
  [[nodiscard]] double eps() const noexcept { return eps_; }
  /// Throws: ShapeError unless x has one of two numbers of dims, and num_features channels in dim `channel`.
  void require_channels(const Tensor& x, std::int64_t dims, std::int64_t or_dims, std::int64_t channel) const;

 private:
  std::int64_t num_features_;
  double eps_;
  std::optional<double> momentum_;
};

/// `batch_norm` of x [N, C, kSpatial dims] (and for one spatial dim also [N, C]) with C num_features; with
/// the batch's statistics in training, with the running statistics in evaluation.
template <int kSpatial>
class BatchNorm : public RunningNorm {
 public:
  explicit BatchNorm(std::int64_t num_features, const RunningNormOptions& options = {});
  BatchNorm(const BatchNorm& original, ShareTensors);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override {
    return "BatchNorm" + std::to_string(kSpatial) + "d";
  }

 protected:
  /// Throws: ShapeError unless x is an input of this layer.
  void require_input(const Tensor& x) const {
    require_channels(x, kSpatial + 2, kSpatial == 1 ? 2 : kSpatial + 2, 1);
  }
};

/// `instance_norm` of x [N, C, kSpatial dims], or of one sample [C, kSpatial dims]. Other than
/// torch.nn.InstanceNorm2d it counts batches, so that momentum nullopt means what it means in BatchNorm
/// (there the statistics then stay as they began), and refuses other channels without parameters too.
template <int kSpatial>
class InstanceNorm final : public RunningNorm {
 public:
  using Options = InstanceNormOptions;
  explicit InstanceNorm(std::int64_t num_features, const InstanceNormOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override {
    return "InstanceNorm" + std::to_string(kSpatial) + "d";
  }
};

extern template class BatchNorm<1>;
extern template class BatchNorm<2>;
extern template class BatchNorm<3>;
extern template class InstanceNorm<1>;
extern template class InstanceNorm<2>;
extern template class InstanceNorm<3>;

using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;
using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;
using InstanceNorm3d = InstanceNorm<3>;

}  // namespace mezzo::nn
