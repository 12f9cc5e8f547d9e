// Convolution layers, plain and transposed, over 1 to 3 spatial dims. The functions, their formulas, dtypes
// and errors are in ops/convolution.h. Names, state dicts and first values are those of torch.nn.
#pragma once

#include "mezzo/core/random.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/convolution.h"
#include "mezzo/ops/rearrange.h"

namespace mezzo::nn {

/// Options of Conv1d, Conv2d and Conv3d.
struct ConvLayerOptions {
  SpatialSizes stride = 1;
  ConvPadding padding = 0;  ///< "same" needs strides of 1
  SpatialSizes dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  PadMode padding_mode = PadMode::constant;  ///< what the padding holds: zeros, or what `pad` puts there
  DType dtype = DType::f32;
  Device device = Device::cpu();
  Generator* generator = nullptr;  ///< of the first values; nullptr: the default one
};

/// Options of ConvTranspose1d, ConvTranspose2d and ConvTranspose3d.
struct ConvTransposeLayerOptions {
  SpatialSizes stride = 1, padding = 0;
  SpatialSizes output_padding = 0;  ///< below stride or dilation, as forward sees to
  std::int64_t groups = 1;
  bool bias = true;
  SpatialSizes dilation = 1;
  DType dtype = DType::f32;
  Device device = Device::cpu();
  Generator* generator = nullptr;  ///< of the first values; nullptr: the default one
};

/// Base of Conv and ConvTranspose: parameters, first values and printing. Weight and bias begin uniform
/// within 1/sqrt(n) of 0, weight drawn first, where n is the number of weights in weight[0].
class ConvLayer : public Layer {
 public:
  /// Draws weight and bias anew.
  void reset_parameters(Generator& generator = default_generator());
  [[nodiscard]] std::int64_t in_channels() const noexcept { return config_.in_channels; }
  [[nodiscard]] std::int64_t out_channels() const noexcept { return config_.out_channels; }
  [[nodiscard]] const Dims& kernel_size() const noexcept { return config_.kernel_size; }
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;
  Param bias;

 protected:
  /// The weight that forward convolves with. A parametrization (nn/parametrizations.h) computes it.
  [[nodiscard]] virtual Tensor computed_weight() const { return weight; }
  /// The arguments of a constructor.
  struct Config {
    std::string name;  ///< for messages
    std::size_t spatial = 0;
    bool is_transposed = false;
    std::int64_t in_channels = 0, out_channels = 0;
    Dims kernel_size, stride;
    ConvPadding padding;
    Dims dilation, output_padding{0};
    std::int64_t groups = 1;
    bool bias = true;
    PadMode padding_mode = PadMode::constant;
    DType dtype = DType::f32;
    Device device = Device::cpu();
    Generator* generator = nullptr;
  };
  /// The config with one number per spatial dim in each list. Throws: ValueError for sizes below 1, negative
  /// padding, lists of the wrong length, groups that do not divide both numbers of channels, and padding
  /// "same" with strides.
  [[nodiscard]] static Config checked(Config config);
  /// `config`: a result of checked().
  explicit ConvLayer(const Config& config);
  ConvLayer(const ConvLayer& original, ShareTensors);
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  /// Throws: ShapeError, naming the layer's path, unless x is an image of in_channels channels.
  void require_channels(const Tensor& x) const;

 private:
  Config config_;
};

/// `conv1d`, `conv2d` or `conv3d` of x [N, in_channels, kSpatial dims] or, for one sample, [in_channels,
/// kSpatial dims], with weight [out_channels, in_channels / groups, kernel_size] and bias [out_channels].
/// Throws: ValueError for sizes that make no sense and groups that do not divide the channels; forward throws
/// ShapeError, naming the layer's path, for other dims and channels, and what `pad` and the function throw.
template <int kSpatial>
class Conv : public ConvLayer {
 public:
  using Options = ConvLayerOptions;
  Conv(std::int64_t in_channels, std::int64_t out_channels, const SpatialSizes& kernel_size,
       const ConvLayerOptions& options = {});
  Conv(const Conv& original, ShareTensors tag) : ConvLayer(original, tag) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override { return "Conv" + std::to_string(kSpatial) + "d"; }
};

/// `conv_transpose1d`, `conv_transpose2d` or `conv_transpose3d`, with weight [in_channels, out_channels /
/// groups, kernel_size]; otherwise as Conv. The padding of a transposed convolution cuts off, so it has no
/// mode.
template <int kSpatial>
class ConvTranspose : public ConvLayer {
 public:
  using Options = ConvTransposeLayerOptions;
  ConvTranspose(std::int64_t in_channels, std::int64_t out_channels, const SpatialSizes& kernel_size,
                const ConvTransposeLayerOptions& options = {});
  ConvTranspose(const ConvTranspose& original, ShareTensors tag) : ConvLayer(original, tag) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  /// forward(x) with a result of these spatial sizes in place of output_padding, to undo a convolution that
  /// rounded its size down. Throws: ValueError for a list of the wrong length, ShapeError, naming the layer's
  /// path, for a size that is not among those from the least one on that a stride rounds away.
  [[nodiscard]] Tensor forward(const Tensor& x, const SpatialSizes& output_size);
  [[nodiscard]] std::string type_name() const override {
    return "ConvTranspose" + std::to_string(kSpatial) + "d";
  }

 private:
  [[nodiscard]] Tensor transposed(const Tensor& x, const Dims& output_padding) const;
};

extern template class Conv<1>;
extern template class Conv<2>;
extern template class Conv<3>;
extern template class ConvTranspose<1>;
extern template class ConvTranspose<2>;
extern template class ConvTranspose<3>;

using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

}  // namespace mezzo::nn
