// Dropout: noise while training, nothing in evaluation mode.
#pragma once

#include "mezzo/core/random.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// `dropout` (ops/random.h) with probability p while the module is training, x itself otherwise. Masks come
/// from `generator`, or the default one. Throws: ValueError unless p is in [0, 1].
class Dropout final : public Layer {
 public:
  explicit Dropout(double p = 0.5, Generator* generator = nullptr);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double p_;
  Generator* generator_;
};

/// The same for whole channels: one number is drawn for each channel of each sample of x [N, C, kSpatial
/// dims], or [C, kSpatial dims], and all of it is kept or zeroed. Forward throws ShapeError, naming the
/// layer's path, for other dims. (torch.nn.Dropout2d takes [C, H, W] for [N, C, L]; Dropout1d does that
/// here.) Source: Tompson et al., "Efficient object localization using convolutional networks", CVPR 2015.
template <int kSpatial>
class ChannelDropout final : public Layer {
 public:
  explicit ChannelDropout(double p = 0.5, Generator* generator = nullptr);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override { return "Dropout" + std::to_string(kSpatial) + "d"; }
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double p_;
  Generator* generator_;
};

/// `alpha_dropout` (ops/random.h) while training, for networks of SELU; otherwise as Dropout.
class AlphaDropout final : public Layer {
 public:
  explicit AlphaDropout(double p = 0.5, Generator* generator = nullptr);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double p_;
  Generator* generator_;
};

/// `feature_alpha_dropout`: the same for whole channels of x [N, C, ..].
class FeatureAlphaDropout final : public Layer {
 public:
  explicit FeatureAlphaDropout(double p = 0.5, Generator* generator = nullptr);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double p_;
  Generator* generator_;
};

extern template class ChannelDropout<1>;
extern template class ChannelDropout<2>;
extern template class ChannelDropout<3>;

using Dropout1d = ChannelDropout<1>;
using Dropout2d = ChannelDropout<2>;
using Dropout3d = ChannelDropout<3>;

}  // namespace mezzo::nn
