// Models whose ONNX files are tried, beside those of the examples.
#pragma once

#include "mezzo/mezzo.h"

namespace mezzo::onnx::testing {

/// A small U-Net: two levels, GroupNorm, upsampling and a transposed convolution, a skip by cat.
struct UNet final : nn::Layer {
  UNet()
      : down(*this, "down",
             nn::Sequential(nn::Conv2d(3, 8, 3, {.padding = 1}), nn::GroupNorm(2, 8), nn::SiLU())),
        inner(*this, "inner",
              nn::Sequential(nn::Conv2d(8, 16, 3, {.padding = 1}), nn::GroupNorm(4, 16), nn::GELU())),
        up(*this, "up", nn::ConvTranspose2d(16, 8, 2, {.stride = 2})),
        out(*this, "out", nn::Conv2d(24, 2, 1)) {}
  Tensor forward(const Tensor& x) override {
    const Tensor a = down(x);
    const Tensor b = inner(max_pool2d(a, {.kernel_size = 2}));
    const Tensor c = interpolate(b, {.scale_factor = 2.0, .mode = InterpolateMode::bilinear});
    return out(cat({a, up(b), narrow(c, 1, 0, 8)}, 1));
  }
  nn::Child<nn::Sequential> down, inner;
  nn::Child<nn::ConvTranspose2d> up;
  nn::Child<nn::Conv2d> out;
};

/// A vision transformer: patches, a class token, learned positions, two encoder layers.
struct ViT final : nn::Layer {
  ViT()
      : patches(*this, "patches", nn::Conv2d(3, 16, 4, {.stride = 4})),
        token(*this, "token", randn({1, 1, 16}) * 0.02),
        positions(*this, "positions", randn({1, 5, 16}) * 0.02),
        encoder(*this, "encoder",
                nn::TransformerEncoder(nn::make<nn::TransformerEncoderLayer>(
                                           16, 4,
                                           nn::TransformerEncoderLayerOptions{.dim_feedforward = 32,
                                                                              .activation = gelu_of,
                                                                              .batch_first = true,
                                                                              .norm_first = true}),
                                       2, nn::make<nn::LayerNorm>(16))),
        head(*this, "head", nn::Linear(16, 7)) {}
  static Tensor gelu_of(const Tensor& x) { return gelu(x); }
  Tensor forward(const Tensor& x) override {
    const Tensor rows = patches(x).flatten(2).transpose(1, 2);
    const Tensor all = cat({token.get().expand({x.size(0), -1, -1}).to(rows.dtype()), rows}, 1);
    return head(encoder(all + positions)[{Slice(), 0}]);
  }
  nn::Child<nn::Conv2d> patches;
  nn::Param token, positions;
  nn::Child<nn::TransformerEncoder> encoder;
  nn::Child<nn::Linear> head;
};

/// A tagger: embedding, two layers of a bidirectional LSTM, a score for each step.
struct Tagger final : nn::Layer {
  Tagger()
      : words(*this, "words", nn::Embedding(20, 8)),
        lstm(*this, "lstm", nn::LSTM(8, 6, {.num_layers = 2, .batch_first = true, .bidirectional = true})),
        head(*this, "head", nn::Linear(12, 4)) {}
  Tensor forward(const Tensor& x) override { return log_softmax(head(lstm(words(x)).output), -1); }
  nn::Child<nn::Embedding> words;
  nn::Child<nn::LSTM> lstm;
  nn::Child<nn::Linear> head;
};

/// A mixture of four experts, of which each row takes two: all run, and what is not taken has weight 0.
struct Experts final : nn::Layer {
  Experts() : gate(*this, "gate", nn::Linear(8, 4)), experts(*this, "experts", nn::ModuleList<nn::Linear>()) {
    for (int i = 0; i < 4; ++i) experts->push_back(nn::make<nn::Linear>(8, 8));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor scores = softmax(gate(x), -1);
    const auto [values, places] = topk(scores, 2, -1);
    const Tensor weights = scatter(zeros_like(scores), -1, places, values / sum(values, {-1}, true));
    Tensors results;
    for (auto& expert : *experts) results.push_back(relu(expert(x)));
    return einsum("nek,ne->nk", {stack(results, 1), weights.to(results[0].dtype())});
  }
  nn::Child<nn::Linear> gate;
  nn::Child<nn::ModuleList<nn::Linear>> experts;
};

}  // namespace mezzo::onnx::testing
