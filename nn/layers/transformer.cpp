// Encoder and decoder layers connect attention, two Linears, norms and dropout, with norms first or last.
// Encoder and decoder run clones of one layer in a row; Transformer runs one after the other.
#include "mezzo/nn/transformer.h"

#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/ops.h"

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

void require_activation(std::string_view name, const LayerOptions& options) {
  if (options.activation) return;
  throw ValueError(name, "an activation", "an empty function", "leave it out for relu");
}

/// x and a branch of it, with a norm before the branch or after their sum.
template <class F>
Tensor added(bool norm_first, const Tensor& x, const Child<LayerNorm>& norm, const F& branch) {
  return norm_first ? x + branch(norm(x)) : norm(x + branch(x));
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
  require_activation("TransformerEncoderLayer", options);
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const TransformerMasks& masks) {
  const AttentionMasks for_attention{.key_padding_mask = masks.src_key_padding_mask,
                                     .attn_mask = masks.src_mask,
                                     .is_causal = masks.is_causal};
  const auto attend = [&](const Tensor& x) { return dropout1(self_attn(x, x, x, for_attention).output); };
  const auto feed = [&](const Tensor& x) { return dropout2(linear2(dropout(activation_(linear1(x))))); };
  return added(norm_first_, added(norm_first_, src, norm1, attend), norm2, feed);
}

// --- the decoder

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const LayerOptions& options)
    : self_attn(*this, "self_attn", attention(d_model, nhead, options)),
      multihead_attn(*this, "multihead_attn", attention(d_model, nhead, options)),
      linear1(*this, "linear1", map(d_model, options.dim_feedforward, options)),
      dropout(*this, "dropout", noise(options)),
      linear2(*this, "linear2", map(options.dim_feedforward, d_model, options)),
      norm1(*this, "norm1", norm_of(d_model, options)),
      norm2(*this, "norm2", norm_of(d_model, options)),
      norm3(*this, "norm3", norm_of(d_model, options)),
      dropout1(*this, "dropout1", noise(options)),
      dropout2(*this, "dropout2", noise(options)),
      dropout3(*this, "dropout3", noise(options)),
      activation_(options.activation),
      norm_first_(options.norm_first) {
  require_activation("TransformerDecoderLayer", options);
}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const TransformerDecoderMasks& masks) {
  const AttentionMasks of_tgt{.key_padding_mask = masks.tgt_key_padding_mask,
                              .attn_mask = masks.tgt_mask,
                              .is_causal = masks.tgt_is_causal};
  const AttentionMasks of_memory{.key_padding_mask = masks.memory_key_padding_mask,
                                 .attn_mask = masks.memory_mask,
                                 .is_causal = masks.memory_is_causal};
  const auto attend = [&](const Tensor& x) { return dropout1(self_attn(x, x, x, of_tgt).output); };
  const auto look_at_memory = [&](const Tensor& x) {
    return dropout2(multihead_attn(x, memory, memory, of_memory).output);
  };
  const auto feed = [&](const Tensor& x) { return dropout3(linear2(dropout(activation_(linear1(x))))); };
  const Tensor x = added(norm_first_, tgt, norm1, attend);
  return added(norm_first_, added(norm_first_, x, norm2, look_at_memory), norm3, feed);
}

// --- several layers, and both

template <class L>
void detail::add_copies(ModuleList<L>& layers, const std::shared_ptr<L>& layer, std::int64_t num_layers) {
  const std::string name =
      std::is_same_v<L, TransformerEncoderLayer> ? "TransformerEncoder" : "TransformerDecoder";
  if (layer == nullptr) throw ValueError(name, "a layer", "nullptr", "pass make<" + name + "Layer>(...)");
  for (std::int64_t i = number_of_layers(name, num_layers); i > 0; --i) layers.push_back(nn::clone(*layer));
}
template void detail::add_copies(ModuleList<TransformerEncoderLayer>& layers,
                                 const std::shared_ptr<TransformerEncoderLayer>& layer,
                                 std::int64_t num_layers);
template void detail::add_copies(ModuleList<TransformerDecoderLayer>& layers,
                                 const std::shared_ptr<TransformerDecoderLayer>& layer,
                                 std::int64_t num_layers);

namespace {

LayerOptions layer_options(const TransformerOptions& options) {
  return {.dim_feedforward = options.dim_feedforward,
          .dropout = options.dropout,
          .activation = options.activation,
          .layer_norm_eps = options.layer_norm_eps,
          .batch_first = options.batch_first,
          .norm_first = options.norm_first,
          .bias = options.bias,
          .dtype = options.dtype,
          .device = options.device,
          .generator = options.generator,
          .dropout_generator = options.dropout_generator};
}

/// `num_layers` layers and a norm after them.
template <class Stack, class L>
std::shared_ptr<Stack> stack_of(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                                const LayerOptions& options) {
  return make<Stack>(make<L>(d_model, nhead, options), num_layers, norm_of(d_model, options));
}

}  // namespace

Transformer::Transformer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& options)
    : encoder(*this, "encoder",
              stack_of<TransformerEncoder, TransformerEncoderLayer>(
                  d_model, nhead, options.num_encoder_layers, layer_options(options))),
      decoder(*this, "decoder",
              stack_of<TransformerDecoder, TransformerDecoderLayer>(
                  d_model, nhead, options.num_decoder_layers, layer_options(options))) {
  reset_parameters(detail::or_default(options.generator));
}

void Transformer::reset_parameters(Generator& generator) {
  for (const Tensor& parameter : parameters()) {
    if (parameter.dim() > 1) init::xavier_uniform_(parameter, 1, generator);
  }
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const EncoderDecoderMasks& masks) {
  const Tensor memory = encoder(src, TransformerMasks{.src_mask = masks.src_mask,
                                                      .src_key_padding_mask = masks.src_key_padding_mask,
                                                      .is_causal = masks.src_is_causal});
  return decoder(tgt, memory,
                 TransformerDecoderMasks{.tgt_mask = masks.tgt_mask,
                                         .memory_mask = masks.memory_mask,
                                         .tgt_key_padding_mask = masks.tgt_key_padding_mask,
                                         .memory_key_padding_mask = masks.memory_key_padding_mask,
                                         .tgt_is_causal = masks.tgt_is_causal,
                                         .memory_is_causal = masks.memory_is_causal});
}

Tensor Transformer::generate_square_subsequent_mask(std::int64_t sz, const TensorOptions& options) {
  constexpr std::string_view kName = "Transformer::generate_square_subsequent_mask";
  if (sz < 0)
    throw ValueError(kName, "a size of at least 0", std::to_string(sz), "it is the number of steps");
  return triu(full({sz, sz}, -std::numeric_limits<double>::infinity(), options), 1);
}

}  // namespace mezzo::nn
