// The networks of the layer `models`, as peers/pytorch_models.py has them.
#pragma once

#include <memory>

#include "cases/library.h"

namespace bench {

/// A pre-norm transformer block with causal attention.
struct Block final : nn::Layer {
  Block(std::int64_t width, std::int64_t heads)
      : norm_1(*this, "norm_1", nn::LayerNorm({width})),
        qkv(*this, "qkv", nn::Linear(width, 3 * width)),
        out(*this, "out", nn::Linear(width, width)),
        norm_2(*this, "norm_2", nn::LayerNorm({width})),
        up(*this, "up", nn::Linear(width, 4 * width)),
        down(*this, "down", nn::Linear(4 * width, width)),
        heads_(heads) {}

  [[nodiscard]] Tensor forward(const Tensor& x) override {
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    Tensors parts = split(qkv(norm_1(x)), {width, width, width}, 2);
    for (Tensor& part : parts) part = part.reshape({batch, length, heads_, width / heads_}).transpose(1, 2);
    const Tensor y = scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = true});
    const Tensor attended = x + out(y.transpose(1, 2).reshape({batch, length, width}));
    return attended + down(gelu(up(norm_2(attended))));
  }

  nn::Child<nn::LayerNorm> norm_1;
  nn::Child<nn::Linear> qkv, out;
  nn::Child<nn::LayerNorm> norm_2;
  nn::Child<nn::Linear> up, down;

 private:
  std::int64_t heads_;
};

struct GptSizes {
  std::int64_t layers, width, heads, context, vocabulary = 256;
};

/// Tokens [N, T] to scores [N, T, vocabulary].
struct Gpt final : nn::Layer {
  explicit Gpt(const GptSizes& sizes)
      : tokens(*this, "tokens", nn::Embedding(sizes.vocabulary, sizes.width)),
        positions(*this, "positions", randn({sizes.context, sizes.width}) * 0.02),
        blocks(*this, "blocks", nn::Sequential()),
        norm(*this, "norm", nn::LayerNorm({sizes.width})),
        head(*this, "head", nn::Linear(sizes.width, sizes.vocabulary)) {
    for (std::int64_t i = 0; i < sizes.layers; ++i)
      blocks->push_back(nn::make<Block>(sizes.width, sizes.heads));
  }

  [[nodiscard]] Tensor forward(const Tensor& x) override {
    return head(norm(blocks(tokens(x) + positions.get())));
  }

  nn::Child<nn::Embedding> tokens;
  nn::Param positions;
  nn::Child<nn::Sequential> blocks;
  nn::Child<nn::LayerNorm> norm;
  nn::Child<nn::Linear> head;
};

/// Two convolutions with GroupNorm, ReLU and pooling, and a linear layer; images [N, 1, 28, 28].
inline std::shared_ptr<nn::Layer> conv_net() {
  auto net = nn::make<nn::Sequential>();
  for (const auto& [in, out] : {std::pair{1, 16}, {16, 32}}) {
    net->push_back(nn::Conv2d(in, out, 3, {.padding = 1}));
    net->push_back(nn::GroupNorm(4, out));
    net->push_back(nn::ReLU());
    net->push_back(nn::MaxPool2d(2));
  }
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(32 * 7 * 7, 10));
  return net;
}

/// The last step of an LSTM over [T, N, 64], and a linear layer.
struct LstmNet final : nn::Layer {
  LstmNet() : lstm(*this, "lstm", nn::LSTM(64, 256)), head(*this, "head", nn::Linear(256, 10)) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override {
    return head(select(lstm->forward(x).output, 0, x.size(0) - 1));
  }

  nn::Child<nn::LSTM> lstm;
  nn::Child<nn::Linear> head;
};

/// Two convolutions with batch norm beside a shortcut.
struct ResidualBlock final : nn::Layer {
  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv_1(*this, "conv_1", nn::Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = false})),
        norm_1(*this, "norm_1", nn::BatchNorm2d(out)),
        conv_2(*this, "conv_2", nn::Conv2d(out, out, 3, {.padding = 1, .bias = false})),
        norm_2(*this, "norm_2", nn::BatchNorm2d(out)),
        shortcut(*this, "shortcut", nn::Sequential()) {
    if (stride == 1 && in == out) return;
    shortcut->push_back(nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}));
    shortcut->push_back(nn::BatchNorm2d(out));
  }

  [[nodiscard]] Tensor forward(const Tensor& x) override {
    return relu(norm_2(conv_2(relu(norm_1(conv_1(x))))) + shortcut(x));
  }

  nn::Child<nn::Conv2d> conv_1;
  nn::Child<nn::BatchNorm2d> norm_1;
  nn::Child<nn::Conv2d> conv_2;
  nn::Child<nn::BatchNorm2d> norm_2;
  nn::Child<nn::Sequential> shortcut;
};

/// ResNet-18 for images [N, 3, 32, 32]: a 3 x 3 stem without pooling.
inline std::shared_ptr<nn::Layer> resnet18() {
  auto net = nn::make<nn::Sequential>();
  net->push_back(nn::Conv2d(3, 64, 3, {.padding = 1, .bias = false}));
  net->push_back(nn::BatchNorm2d(64));
  net->push_back(nn::ReLU());
  std::int64_t in = 64;
  for (const std::int64_t out : {64, 128, 256, 512}) {
    net->push_back(nn::make<ResidualBlock>(in, out, out == 64 ? 1 : 2));
    net->push_back(nn::make<ResidualBlock>(out, out, 1));
    in = out;
  }
  net->push_back(nn::AdaptiveAvgPool2d(1));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(512, 10));
  return net;
}

}  // namespace bench
