// MultiheadAttention: attention of several heads between linear layers, as torch.nn.MultiheadAttention
// computes it.
#pragma once

#include <optional>

#include "mezzo/core/random.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// Options of MultiheadAttention.
struct MultiheadAttentionOptions {
  double dropout = 0;                                ///< of each weight, in training
  bool bias = true;                                  ///< of all four linear maps
  bool add_bias_kv = false;                          ///< one more key and value, which are learned
  bool add_zero_attn = false;                        ///< one more key and value, of zeros
  std::optional<std::int64_t> kdim = {}, vdim = {};  ///< features of key and value; embed_dim
  bool batch_first = false;                          ///< [N, L, ..] and not [L, N, ..]
  DType dtype = DType::f32;
  Device device = Device::cpu();
  Generator* generator = nullptr;          ///< of the first values; nullptr: the default one
  Generator* dropout_generator = nullptr;  ///< of dropout; nullptr: the default one
};

/// Optional arguments of a call beyond query, key and value. As in torch.nn, and other than in
/// scaled_dot_product_attention, a bool mask is true where a key is left OUT; a floating mask is added to the
/// scores. All masks that are given apply together.
struct AttentionMasks {
  Tensor key_padding_mask = {};      ///< [N, S], of one sample [S]
  bool need_weights = false;         ///< return the weights too, which takes a matrix [L, S] per head
  Tensor attn_mask = {};             ///< [L, S], or [N num_heads, L, S]
  bool average_attn_weights = true;  ///< the weights' mean over the heads
  bool is_causal = false;            ///< key s takes part in query l for s <= l only; needs no attn_mask
};

/// Results of MultiheadAttention.
struct AttentionOutput {
  Tensor output;  ///< as the query
  /// [N, L, S], each head's [N, num_heads, L, S]; undefined unless need_weights. S counts the keys of
  /// add_bias_kv and add_zero_attn too, which come last.
  Tensor weights;
};

/// out_proj(attention of each head), where the heads are equal parts of query, key and value after linear
/// maps to embed_dim. query [L, N, embed_dim], key [S, N, kdim], value [S, N, vdim], or N first if
/// batch_first, or one sample without N; the output has the query's layout. In training dropout zeroes
/// weights, in those that are returned too.
///
/// Without need_weights, which is false here and true in torch, no matrix of queries by keys is held
/// (scaled_dot_product_attention, which reads the heads where they lie). A query in which no key takes part
/// has weights of 0 (torch: NaN).
///
/// Parameters are in_proj_weight [3 embed_dim, embed_dim] (of query, key, value), or where kdim or vdim
/// differ q_proj_weight, k_proj_weight and v_proj_weight; in_proj_bias; bias_k and bias_v [1, 1, embed_dim],
/// the key and value of add_bias_kv after the maps; out_proj.weight, out_proj.bias. Weights begin as
/// xavier_uniform_ (out_proj's as Linear's; bias_k and bias_v as xavier_normal_), biases as zeros. Masks, and
/// is_causal, are about the keys that are passed: those that add_bias_kv and add_zero_attn add take part in
/// every query. Throws: ValueError for sizes below 1, heads that do not divide embed_dim and a dropout
/// outside of [0, 1]; forward throws ShapeError, naming the layer's path, for inputs and masks that do not
/// fit, DTypeError for integer masks, and what the op throws.
class MultiheadAttention final : public Module {
  /// The constructor's arguments, checked.
  struct Sizes {
    Sizes(std::int64_t embed_dim, std::int64_t num_heads, const MultiheadAttentionOptions& options);
    [[nodiscard]] bool one_size() const { return kdim == embed_dim && vdim == embed_dim; }
    std::int64_t embed_dim, num_heads, kdim, vdim;
  };
  Sizes sizes_;

 public:
  using Options = MultiheadAttentionOptions;
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});
  [[nodiscard]] AttentionOutput forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttentionMasks& masks = {});
  [[nodiscard]] AttentionOutput operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const AttentionMasks& masks = {}) {
    return call(*this, query, key, value, masks);
  }
  /// Draws the weights anew, out_proj's first, and zeroes the biases.
  void reset_parameters(Generator& generator = default_generator());
  [[nodiscard]] std::int64_t embed_dim() const noexcept { return sizes_.embed_dim; }
  [[nodiscard]] std::int64_t num_heads() const noexcept { return sizes_.num_heads; }
  [[nodiscard]] bool is_batch_first() const noexcept { return options_.batch_first; }

  Param in_proj_weight;
  Param q_proj_weight;
  Param k_proj_weight;
  Param v_proj_weight;
  Param in_proj_bias;
  Param bias_k;
  Param bias_v;
  Child<Linear> out_proj;

 private:
  struct Heads {
    Tensor q, k, v;  ///< [N, num_heads, length, embed_dim / num_heads]
  };
  /// Draws the input's maps and zeroes all biases.
  void fill(Generator& generator);
  /// Throws unless the three inputs belong together.
  void require_inputs(const Tensor& query, const Tensor& key, const Tensor& value) const;
  [[nodiscard]] Heads project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  /// How many keys add_bias_kv and add_zero_attn add.
  [[nodiscard]] std::int64_t added_keys() const {
    return (bias_k.defined() ? 1 : 0) + (options_.add_zero_attn ? 1 : 0);
  }
  /// Keys or values of all heads and those that are added, of which `bias` is one.
  [[nodiscard]] Tensor with_added(const Tensor& heads, const Tensor& bias) const;
  /// [.., embed_dim] in the layout of the inputs as heads.
  [[nodiscard]] Tensor as_heads(const Tensor& x) const;
  /// All masks of a call in one that broadcasts to [N, num_heads, L, S], bool and true where a key takes
  /// part, or floating; undefined for none.
  [[nodiscard]] Tensor joined_mask(const Heads& heads, const AttentionMasks& masks, bool is_sample) const;

  MultiheadAttentionOptions options_;
};

}  // namespace mezzo::nn
