// The network of char_gpt: a GPT of pre-norm blocks with learned positions.
#pragma once

#include <cstdint>

#include "mezzo/mezzo.h"

namespace models {

/// A pre-norm transformer block with causal attention.
struct Block final : mezzo::nn::Layer {
  Block(std::int64_t width, std::int64_t heads)
      : norm_1(*this, "norm_1", mezzo::nn::LayerNorm(width)),
        qkv(*this, "qkv", mezzo::nn::Linear(width, 3 * width)),
        out(*this, "out", mezzo::nn::Linear(width, width)),
        norm_2(*this, "norm_2", mezzo::nn::LayerNorm(width)),
        up(*this, "up", mezzo::nn::Linear(width, 4 * width)),
        down(*this, "down", mezzo::nn::Linear(4 * width, width)),
        heads_(heads) {}

  [[nodiscard]] mezzo::Tensor forward(const mezzo::Tensor& x) override {
    using namespace mezzo;
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    Tensors parts = split(qkv(norm_1(x)), {width, width, width}, 2);
    for (Tensor& part : parts) part = part.reshape({batch, length, heads_, width / heads_}).transpose(1, 2);
    const Tensor y = scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = true});
    const Tensor attended = x + out(y.transpose(1, 2).reshape({batch, length, width}));
    return attended + down(gelu(up(norm_2(attended))));
  }

  mezzo::nn::Child<mezzo::nn::LayerNorm> norm_1;
  mezzo::nn::Child<mezzo::nn::Linear> qkv, out;
  mezzo::nn::Child<mezzo::nn::LayerNorm> norm_2;
  mezzo::nn::Child<mezzo::nn::Linear> up, down;

 private:
  std::int64_t heads_;
};

struct GptSizes {
  std::int64_t layers, width, heads, context, vocabulary = 256;
};

/// Tokens [N, T] to scores [N, T, vocabulary], for a T of at most `context`.
struct Gpt final : mezzo::nn::Layer {
  explicit Gpt(const GptSizes& sizes)
      : tokens(*this, "tokens", mezzo::nn::Embedding(sizes.vocabulary, sizes.width)),
        positions(*this, "positions", mezzo::randn({sizes.context, sizes.width}) * 0.02),
        blocks(*this, "blocks", mezzo::nn::Sequential()),
        norm(*this, "norm", mezzo::nn::LayerNorm(sizes.width)),
        head(*this, "head", mezzo::nn::Linear(sizes.width, sizes.vocabulary)) {
    for (std::int64_t i = 0; i < sizes.layers; ++i)
      blocks->push_back(mezzo::nn::make<Block>(sizes.width, sizes.heads));
  }

  [[nodiscard]] mezzo::Tensor forward(const mezzo::Tensor& x) override {
    return head(norm(blocks(tokens(x) + positions.get().narrow(0, 0, x.size(1)))));
  }

  mezzo::nn::Child<mezzo::nn::Embedding> tokens;
  mezzo::nn::Param positions;
  mezzo::nn::Child<mezzo::nn::Sequential> blocks;
  mezzo::nn::Child<mezzo::nn::LayerNorm> norm;
  mezzo::nn::Child<mezzo::nn::Linear> head;
};

}  // namespace models
