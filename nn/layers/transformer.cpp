// The encoder layer connects self-attention, two Linears, norms and dropout, with norms first or last. The
// encoder runs clones of one layer in a row.
#include "mezzo/nn/transformer.h"

#include "mezzo/core/error.h"

namespace mezzo::nn {

namespace {

using LayerOptions = TransformerEncoderLayerOptions;

std::shared_ptr<MultiheadAttention> attention(std::int64_t d_model, std::int64_t nhead,
                                              const LayerOptions& options) {
  return make<MultiheadAttention>(d_model, nhead,
                                  MultiheadAttentionOptions{.dropout = options.dropout,
                                                            .bias = options.bias,
                                                            .batch_first = options.batch_first,
                                                            .dtype = options.dtype,
                                                            .device = options.device,
                                                            .generator = options.generator,
                                                            .dropout_generator = options.dropout_generator});
}

std::shared_ptr<Linear> map(std::int64_t in, std::int64_t out, const LayerOptions& options) {
  return make<Linear>(in, out,
                      LinearOptions{.bias = options.bias,
                                    .dtype = options.dtype,
                                    .device = options.device,
                                    .generator = options.generator});
}

std::shared_ptr<LayerNorm> norm_of(std::int64_t d_model, const LayerOptions& options) {
  return make<LayerNorm>(d_model, LayerNormOptions{.eps = options.layer_norm_eps,
                                                   .bias = options.bias,
                                                   .dtype = options.dtype,
                                                   .device = options.device});
}

std::shared_ptr<Dropout> noise(const LayerOptions& options) {
  return make<Dropout>(options.dropout, options.dropout_generator);
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const LayerOptions& options)
    : self_attn(*this, "self_attn", attention(d_model, nhead, options)),
      linear1(*this, "linear1", map(d_model, options.dim_feedforward, options)),
      dropout(*this, "dropout", noise(options)),
      linear2(*this, "linear2", map(options.dim_feedforward, d_model, options)),
      norm1(*this, "norm1", norm_of(d_model, options)),
      norm2(*this, "norm2", norm_of(d_model, options)),
      dropout1(*this, "dropout1", noise(options)),
      dropout2(*this, "dropout2", noise(options)),
      activation_(options.activation),
      norm_first_(options.norm_first) {
  if (activation_) return;
  throw ValueError("TransformerEncoderLayer", "an activation", "an empty function", "leave it out for relu");
}

Tensor TransformerEncoderLayer::attend(const Tensor& x, const TransformerMasks& masks) const {
  const AttentionMasks for_attention{.key_padding_mask = masks.src_key_padding_mask,
                                     .attn_mask = masks.src_mask,
                                     .is_causal = masks.is_causal};
  return dropout1(self_attn(x, x, x, for_attention).output);
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) const {
  return dropout2(linear2(dropout(activation_(linear1(x)))));
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const TransformerMasks& masks) {
  if (norm_first_) {
    const Tensor x = src + attend(norm1(src), masks);
    return x + feed_forward(norm2(x));
  }
  const Tensor x = norm1(src + attend(src, masks));
  return norm2(x + feed_forward(x));
}

TransformerEncoder::TransformerEncoder(const std::shared_ptr<TransformerEncoderLayer>& encoder_layer,
                                       std::int64_t num_layers, std::shared_ptr<Layer> norm_in)
    : layers(*this, "layers", make<ModuleList<TransformerEncoderLayer>>()),
      norm(*this, "norm", std::move(norm_in)) {
  if (encoder_layer == nullptr)
    throw ValueError("TransformerEncoder", "a layer", "nullptr", "pass make<TransformerEncoderLayer>(...)");
  if (num_layers < 1) {
    throw ValueError("TransformerEncoder", "num_layers of at least 1", std::to_string(num_layers),
                     "check the model's sizes");
  }
  for (std::int64_t i = 0; i < num_layers; ++i) layers->push_back(nn::clone(*encoder_layer));
}

Tensor TransformerEncoder::forward(const Tensor& src, const TransformerMasks& masks) {
  Tensor x = src;
  for (Child<TransformerEncoderLayer>& layer : *layers) x = layer(x, masks);
  return norm ? norm(x) : x;
}

}  // namespace mezzo::nn
