// The transformer: encoder and decoder layers of attention and two linear maps, several of them in a row, and
// an encoder with a decoder. Names, state dicts and defaults are those of torch.nn.
#pragma once

#include "mezzo/core/function.h"
#include "mezzo/nn/attention.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/module_list.h"
#include "mezzo/nn/norm.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo::nn {

/// Options of TransformerEncoderLayer and TransformerDecoderLayer.
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

/// Masks of TransformerEncoderLayer and TransformerEncoder, as in AttentionMasks (nn/attention.h).
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
  mezzo::detail::Function<Tensor(const Tensor&)> activation_;
  bool norm_first_;
};

namespace detail {
/// Puts clones of a layer into the list of a TransformerStack.
template <class L>
void add_copies(ModuleList<L>& layers, const std::shared_ptr<L>& layer, std::int64_t num_layers);

/// Base of TransformerEncoder and TransformerDecoder: the layers of type L, and the norm after them. Its
/// constructors are inline: of an abstract class clang makes no complete ones, which g++'s programs ask for.
template <class Base, class L>
class TransformerStack : public Base {
 public:
  TransformerStack(const std::shared_ptr<L>& layer, std::int64_t num_layers,
                   std::shared_ptr<Layer> norm_in = nullptr)
      : layers(*this, "layers", make<ModuleList<L>>()), norm(*this, "norm", std::move(norm_in)) {
    add_copies(*layers, layer, num_layers);
  }
  template <ModuleValue<L> V>
  TransformerStack(V&& layer, std::int64_t num_layers)
      : TransformerStack(shared<V>(std::forward<V>(layer)), num_layers) {}
  template <ModuleValue<L> V, ModuleValue<Layer> N>
  TransformerStack(V&& layer, std::int64_t num_layers, N&& last)
      : TransformerStack(shared<V>(std::forward<V>(layer)), num_layers, shared<N>(std::forward<N>(last))) {}

  Child<ModuleList<L>> layers;
  Child<Layer> norm;

 protected:
  /// x through each layer, with its other arguments, and the norm.
  template <class... A>
  [[nodiscard]] Tensor through_all(Tensor x, const A&... others) {
    for (Child<L>& layer : *layers) x = layer(x, others...);
    return norm ? norm(x) : x;
  }
};
}  // namespace detail

/// num_layers copies of a layer one after the other, "layers.0", ..., and a norm after the last one unless it
/// is nullptr. As in torch the copies begin with the same values. Throws: ValueError for num_layers below 1
/// or above 65536 and for no layer.
class TransformerEncoder final : public detail::TransformerStack<Layer, TransformerEncoderLayer> {
 public:
  using TransformerStack::TransformerStack;
  [[nodiscard]] Tensor forward(const Tensor& src) override { return forward(src, {}); }
  [[nodiscard]] Tensor forward(const Tensor& src, const TransformerMasks& masks) {
    return through_all(src, masks);
  }
  [[nodiscard]] Tensor operator()(const Tensor& src, const TransformerMasks& masks = {}) {
    return call(*this, src, masks);
  }
};

using TransformerDecoderLayerOptions = TransformerEncoderLayerOptions;

/// Masks of TransformerDecoderLayer and TransformerDecoder, as in AttentionMasks (nn/attention.h). L counts
/// the steps of tgt, S the steps of memory.
struct TransformerDecoderMasks {
  Tensor tgt_mask = {};                 ///< [L, L], or [N nhead, L, L]
  Tensor memory_mask = {};              ///< [L, S], or [N nhead, L, S]
  Tensor tgt_key_padding_mask = {};     ///< [N, L], of one sample [L]
  Tensor memory_key_padding_mask = {};  ///< [N, S], of one sample [S]
  bool tgt_is_causal = false;           ///< no step of tgt reads a later one; needs no tgt_mask
  bool memory_is_causal = false;        ///< step l of tgt reads steps s <= l of memory; needs no memory_mask
};

/// Self-attention, attention to an encoder's result and a feed-forward block, each added to its input: with
/// a(x) = dropout1(self_attn(x, x, x)), m(x) = dropout2(multihead_attn(x, memory, memory)) and f(x) =
/// dropout3(linear2(dropout(activation(linear1(x))))), y = norm1(x + a(x)), z = norm2(y + m(y)) and norm3(z +
/// f(z)); if norm_first, y = x + a(norm1(x)), z = y + m(norm2(y)) and z + f(norm3(z)). tgt [L, N, d_model],
/// memory [S, N, d_model], or N first if batch_first, or one sample without N; the result is as tgt. Throws:
/// what TransformerEncoderLayer throws.
class TransformerDecoderLayer final : public Module {
 public:
  using Options = TransformerDecoderLayerOptions;
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerDecoderLayerOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& tgt, const Tensor& memory,
                               const TransformerDecoderMasks& masks = {});
  [[nodiscard]] Tensor operator()(const Tensor& tgt, const Tensor& memory,
                                  const TransformerDecoderMasks& masks = {}) {
    return call(*this, tgt, memory, masks);
  }

  Child<MultiheadAttention> self_attn;
  Child<MultiheadAttention> multihead_attn;
  Child<Linear> linear1;
  Child<Dropout> dropout;
  Child<Linear> linear2;
  Child<LayerNorm> norm1;
  Child<LayerNorm> norm2;
  Child<LayerNorm> norm3;
  Child<Dropout> dropout1;
  Child<Dropout> dropout2;
  Child<Dropout> dropout3;

 private:
  mezzo::detail::Function<Tensor(const Tensor&)> activation_;
  bool norm_first_;
};

/// num_layers copies of a layer one after the other, all with the same memory; otherwise as
/// TransformerEncoder.
class TransformerDecoder final : public detail::TransformerStack<Module, TransformerDecoderLayer> {
 public:
  using TransformerStack::TransformerStack;
  [[nodiscard]] Tensor forward(const Tensor& tgt, const Tensor& memory,
                               const TransformerDecoderMasks& masks = {}) {
    return through_all(tgt, memory, masks);
  }
  [[nodiscard]] Tensor operator()(const Tensor& tgt, const Tensor& memory,
                                  const TransformerDecoderMasks& masks = {}) {
    return call(*this, tgt, memory, masks);
  }
};

/// Options of Transformer: the numbers of layers, and TransformerEncoderLayerOptions for all of them.
struct TransformerOptions {
  std::int64_t num_encoder_layers = 6, num_decoder_layers = 6;
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  mezzo::detail::Function<Tensor(const Tensor&)> activation = relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
  bool bias = true;
  DType dtype = DType::f32;
  Device device = Device::cpu();
  Generator* generator = nullptr;          ///< of the first values; nullptr: the default one
  Generator* dropout_generator = nullptr;  ///< of dropout; nullptr: the default one
};

/// Masks of Transformer: of its encoder, and of its decoder.
struct EncoderDecoderMasks {
  Tensor src_mask = {};                 ///< [S, S], or [N nhead, S, S]
  Tensor tgt_mask = {};                 ///< [L, L], or [N nhead, L, L]
  Tensor memory_mask = {};              ///< [L, S], or [N nhead, L, S]
  Tensor src_key_padding_mask = {};     ///< [N, S], of one sample [S]
  Tensor tgt_key_padding_mask = {};     ///< [N, L], of one sample [L]
  Tensor memory_key_padding_mask = {};  ///< [N, S], of one sample [S]
  bool src_is_causal = false, tgt_is_causal = false, memory_is_causal = false;
};

/// decoder(tgt, encoder(src)): src [S, N, d_model] and tgt [L, N, d_model], or N first if batch_first, or one
/// sample each without N, give [L, N, d_model] as tgt. Both parts end in a LayerNorm. All matrices begin as
/// xavier_uniform_. An encoder or decoder of one's own goes into its slot: net.encoder.replace(...). Throws:
/// what TransformerEncoder and TransformerDecoder throw. Source: Vaswani et al., "Attention is all you need",
/// 2017; torch.nn.Transformer.
class Transformer final : public Module {
 public:
  using Options = TransformerOptions;
  explicit Transformer(std::int64_t d_model = 512, std::int64_t nhead = 8,
                       const TransformerOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& src, const Tensor& tgt, const EncoderDecoderMasks& masks = {});
  [[nodiscard]] Tensor operator()(const Tensor& src, const Tensor& tgt,
                                  const EncoderDecoderMasks& masks = {}) {
    return call(*this, src, tgt, masks);
  }
  /// Draws all matrices anew, in the order of parameters(); vectors stay as they are, as in torch.
  void reset_parameters(Generator& generator = default_generator());
  /// [sz, sz]: 0 on the diagonal and below, -inf above. The mask that is_causal stands for. Throws:
  /// ValueError for a negative size.
  [[nodiscard]] static Tensor generate_square_subsequent_mask(std::int64_t sz,
                                                              const TensorOptions& options = {});

  Child<TransformerEncoder> encoder;
  Child<TransformerDecoder> decoder;
};

}  // namespace mezzo::nn
