// The encoder of a transformer: its layer of attention and two linear maps, and several of them. Names, state
// dicts and defaults are those of torch.nn.
#pragma once

#include "mezzo/core/function.h"
#include "mezzo/nn/attention.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/module_list.h"
#include "mezzo/nn/norm.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo::nn {

/// Options of TransformerEncoderLayer.
struct TransformerEncoderLayerOptions {
  std::int64_t dim_feedforward = 2048;  ///< features between the two linear maps
  double dropout = 0.1;                 ///< of attention's weights and of both branches, in training
  mezzo::detail::Function<Tensor(const Tensor&)> activation = relu;  ///< between the linear maps
  double layer_norm_eps = 1e-5;
  bool batch_first = false;  ///< [N, L, ..] and not [L, N, ..]
  bool norm_first = false;   ///< norms before the branches and not after the sums
  bool bias = true;          ///< of linear maps and norms
  DType dtype = DType::f32;
  Device device = Device::cpu();
  Generator* generator = nullptr;          ///< of the first values; nullptr: the default one
  Generator* dropout_generator = nullptr;  ///< of dropout; nullptr: the default one
};

/// Masks of TransformerEncoderLayer and TransformerEncoder, as those of AttentionMasks (nn/attention.h).
struct TransformerMasks {
  Tensor src_mask = {};              ///< [L, L], or [N nhead, L, L]
  Tensor src_key_padding_mask = {};  ///< [N, L], of one sample [L]
  bool is_causal = false;            ///< no step reads a later one; needs no src_mask
};

/// Self-attention and a feed-forward block, each added to its input: with a(x) = dropout1(self_attn(x, x, x))
/// and f(x) = dropout2(linear2(dropout(activation(linear1(x))))), y = norm1(x + a(x)) and z = norm2(y +
/// f(y)); if norm_first, y = x + a(norm1(x)) and z = y + f(norm2(y)). src [L, N, d_model], or N first if
/// batch_first, or one sample [L, d_model]; so is the result. Throws: what its parts throw (Linear,
/// MultiheadAttention, LayerNorm, Dropout), and ValueError for an activation that is empty.
class TransformerEncoderLayer final : public Layer {
 public:
  using Options = TransformerEncoderLayerOptions;
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerEncoderLayerOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& src) override { return forward(src, {}); }
  [[nodiscard]] Tensor forward(const Tensor& src, const TransformerMasks& masks);
  [[nodiscard]] Tensor operator()(const Tensor& src, const TransformerMasks& masks = {}) {
    return call(*this, src, masks);
  }

  Child<MultiheadAttention> self_attn;
  Child<Linear> linear1;
  Child<Dropout> dropout;
  Child<Linear> linear2;
  Child<LayerNorm> norm1;
  Child<LayerNorm> norm2;
  Child<Dropout> dropout1;
  Child<Dropout> dropout2;

 private:
  [[nodiscard]] Tensor attend(const Tensor& x, const TransformerMasks& masks) const;
  [[nodiscard]] Tensor feed_forward(const Tensor& x) const;

  mezzo::detail::Function<Tensor(const Tensor&)> activation_;
  bool norm_first_;
};

/// num_layers copies of a layer one after the other, "layers.0", ..., and a norm after the last one unless it
/// is nullptr. As in torch the copies begin with the same values. Throws: ValueError for num_layers below 1
/// and for no layer.
class TransformerEncoder final : public Layer {
 public:
  TransformerEncoder(const std::shared_ptr<TransformerEncoderLayer>& encoder_layer, std::int64_t num_layers,
                     std::shared_ptr<Layer> norm = nullptr);
  template <detail::ModuleValue<TransformerEncoderLayer> L>
  TransformerEncoder(L&& encoder_layer, std::int64_t num_layers)
      : TransformerEncoder(detail::shared<L>(std::forward<L>(encoder_layer)), num_layers) {}
  template <detail::ModuleValue<TransformerEncoderLayer> L, detail::ModuleValue<Layer> N>
  TransformerEncoder(L&& encoder_layer, std::int64_t num_layers, N&& last)
      : TransformerEncoder(detail::shared<L>(std::forward<L>(encoder_layer)), num_layers,
                           detail::shared<N>(std::forward<N>(last))) {}
  [[nodiscard]] Tensor forward(const Tensor& src) override { return forward(src, {}); }
  [[nodiscard]] Tensor forward(const Tensor& src, const TransformerMasks& masks);
  [[nodiscard]] Tensor operator()(const Tensor& src, const TransformerMasks& masks = {}) {
    return call(*this, src, masks);
  }

  Child<ModuleList<TransformerEncoderLayer>> layers;
  Child<Layer> norm;
};

}  // namespace mezzo::nn
