// The two networks of the example: a small convolutional one with GroupNorm and a small transformer with
// LayerNorm. Both map images [N, 1, S, S] to scores of kClasses classes.
#pragma once

#include <memory>
#include <string>

#include "mezzo/mezzo.h"

namespace norm_surgery {

constexpr std::int64_t kClasses = 10;

/// Three convolutions, each with GroupNorm and ReLU, then the mean over the image.
struct ConvNet final : mezzo::nn::Layer {
  explicit ConvNet(std::int64_t width = 32);
  [[nodiscard]] mezzo::Tensor forward(const mezzo::Tensor& images) override;

  mezzo::nn::Child<mezzo::nn::Sequential> features;
  mezzo::nn::Child<mezzo::nn::Linear> head;
};

/// The rows of an image as a sequence of tokens through a transformer encoder.
struct RowTransformer final : mezzo::nn::Layer {
  explicit RowTransformer(std::int64_t side, std::int64_t width = 64);
  [[nodiscard]] mezzo::Tensor forward(const mezzo::Tensor& images) override;

  mezzo::nn::Child<mezzo::nn::Linear> embed;
  mezzo::nn::Param positions;
  mezzo::nn::Child<mezzo::nn::TransformerEncoder> encoder;
  mezzo::nn::Child<mezzo::nn::Linear> head;
};

/// One of the two, "conv" or "transformer".
[[nodiscard]] std::shared_ptr<mezzo::nn::Layer> make_model(const std::string& name, std::int64_t side);

}  // namespace norm_surgery
