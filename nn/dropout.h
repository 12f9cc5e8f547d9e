// Dropout: noise while training, nothing in evaluation mode.
#pragma once

#include <string>
#include <string_view>

#include "mezzo/core/random.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/random.h"

namespace mezzo::nn {

/// Base of all dropout layers: the probability p of zeroing, and where masks come from: `generator`, or the
/// default one. Throws: ValueError unless p is in [0, 1].
class DropoutLayer : public Layer {
 public:
  // All virtual members are here, so that nn/module/call.cpp knows the type where this file's sources are not
  // linked.
  [[nodiscard]] std::string extra_repr() const final { return "p=" + Value(p_).to_string(); }

 protected:
  DropoutLayer(std::string_view name, double p, Generator* generator);
  [[nodiscard]] double p() const noexcept { return p_; }
  [[nodiscard]] Generator& generator() const;

 private:
  double p_;
  Generator* generator_;
};

/// A layer that calls `F` with probability p while the module is training, x itself otherwise.
template <Tensor (*F)(const Tensor&, double, bool, Generator&)>
class DropoutOf : public DropoutLayer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override { return F(x, p(), is_training(), generator()); }

 protected:
  using DropoutLayer::DropoutLayer;
};
/// `dropout` (ops/random.h) with probability p while the module is training, x itself otherwise.
class Dropout final : public DropoutOf<dropout> {
 public:
  explicit Dropout(double p = 0.5, Generator* generator = nullptr) : DropoutOf("Dropout", p, generator) {}
};
/// `alpha_dropout` (ops/random.h) while training, for networks of SELU; otherwise as Dropout.
class AlphaDropout final : public DropoutOf<alpha_dropout> {
 public:
  explicit AlphaDropout(double p = 0.5, Generator* generator = nullptr)
      : DropoutOf("AlphaDropout", p, generator) {}
};
/// `feature_alpha_dropout`: AlphaDropout of whole channels of x [N, C, ..].
class FeatureAlphaDropout final : public DropoutOf<feature_alpha_dropout> {
 public:
  explicit FeatureAlphaDropout(double p = 0.5, Generator* generator = nullptr)
      : DropoutOf("FeatureAlphaDropout", p, generator) {}
};

/// Dropout of whole channels: one number is drawn for each channel of each sample of x [N, C, kSpatial dims],
/// or [C, kSpatial dims], and the channel is kept or zeroed. Forward throws ShapeError, naming the layer's
/// path, for other dims. (torch.nn.Dropout2d takes [C, H, W] for [N, C, L]; Dropout1d does that here.)
/// Source: Tompson et al., "Efficient object localization using convolutional networks", CVPR 2015.
template <int kSpatial>
class ChannelDropout final : public DropoutLayer {
 public:
  explicit ChannelDropout(double p = 0.5, Generator* generator = nullptr);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override { return "Dropout" + std::to_string(kSpatial) + "d"; }
};

extern template class ChannelDropout<1>;
extern template class ChannelDropout<2>;
extern template class ChannelDropout<3>;

using Dropout1d = ChannelDropout<1>;
using Dropout2d = ChannelDropout<2>;
using Dropout3d = ChannelDropout<3>;

}  // namespace mezzo::nn
