// Shared by attention and its backward op: attributes, checks, how tensors reach the kernels, and the plain
// composition.
#pragma once

#include "mezzo/kernels/attention/attention.h"
#include "mezzo/ops/attention.h"
#include "mezzo/ops/detail/composed.h"

namespace mezzo::ops {

struct AttentionAttrs {
  bool is_causal = false;
  std::optional<double> scale = {};
  double dropout_p = 0;
  bool enable_gqa = false;
};

struct AttentionForwardAttrs : AttentionAttrs {
  bool logsumexp = false;  ///< a second output: each query's logsumexp, [.., L], in the compute type
  MEZZO_FIELDS(AttentionForwardAttrs, is_causal, scale, dropout_p, enable_gqa, logsumexp)
};
/// Which gradients the backward op returns, in this order, and in which dtypes (default: q's).
struct AttentionBackwardAttrs : AttentionAttrs {
  bool query = true, key = true, value = true;
  std::optional<DType> query_dtype = {}, key_dtype = {}, value_dtype = {};
  MEZZO_FIELDS(AttentionBackwardAttrs, is_causal, scale, dropout_p, enable_gqa, query, key, value,
               query_dtype, key_dtype, value_dtype)
};

/// The tensors of a call; mask and seed may be undefined.
struct AttentionInputs {
  const Tensor &query, &key, &value, &mask, &seed;
};

/// A checked call.
struct AttentionCall {
  /// Throws what the contract of scaled_dot_product_attention says.
  AttentionCall(std::string_view op, const AttentionInputs& inputs, const AttentionAttrs& attrs);

  Shape batch;  ///< leading dims of all together
  std::int64_t queries, keys, size, value_size;
  bool causal;
  double scale, dropout_p;

  bool grouped;  ///< the last of the leading dims are heads, of which keys and values may have fewer

  /// [batch.., rows, cols]
  [[nodiscard]] Shape matrix(std::int64_t rows, std::int64_t cols) const;
  /// Key or value with each head repeated for every head of the query that reads it.
  [[nodiscard]] Tensor per_query_head(const Tensor& x) const;
  /// The gradient of query, key or value, of `shape`, given its gradient for all batches and heads.
  [[nodiscard]] Tensor summed(const Tensor& gradient, const Shape& shape) const;
};

/// The arguments of the kernels; keeps their memory.
class AttentionViews {
 public:
  AttentionViews(const AttentionCall& call, const AttentionInputs& inputs);
  [[nodiscard]] const kernels::Attention& get() const { return attention_; }
  /// A tensor [batch.., rows, cols] or one that broadcasts to it, as [B, H, rows, cols] with neighbours in
  /// the last dim.
  [[nodiscard]] kernels::View heads(const Tensor& x, std::int64_t rows, std::int64_t cols) {
    return shown(x, call_.matrix(rows, cols));
  }

 private:
  /// heads() of a key or value, with its own number of heads.
  [[nodiscard]] kernels::View own_heads(const Tensor& x, std::int64_t rows, std::int64_t cols);
  [[nodiscard]] kernels::View shown(const Tensor& x, const Shape& shape);

  const AttentionCall& call_;
  SmallVector<Tensor, 8> kept_;
  kernels::Attention attention_;
};

/// The composition of public ops with the same meaning, all in the compute type and expanded to the batch.
struct ComposedAttention {
  ComposedAttention(const AttentionCall& call, const AttentionInputs& inputs, DType compute);
  /// The weights after dropout, or a gradient of these on its way back through it.
  [[nodiscard]] Tensor dropped(const Tensor& weights) const;

  Tensor query, key, value;
  Tensor weights;    ///< [batch.., L, S]; 0 for a query without keys
  Tensor logsumexp;  ///< [batch.., L]; -inf for such a query
  Tensor kept;       ///< bool: weights that dropout keeps; undefined without
  double dropout_p;
};

}  // namespace mezzo::ops
