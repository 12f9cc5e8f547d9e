// Scaled dot product attention: the products, the softmax between them and their gradients in one op, which
// holds no matrix of queries by keys.
#pragma once

#include <optional>

#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

/// torch's arguments after query, key and value, in its order.
struct AttentionOptions {
  Tensor attn_mask = {};             ///< undefined: none
  double dropout_p = 0;              ///< of each weight, training or not
  bool is_causal = false;            ///< key s takes part in query l for s <= l only
  std::optional<double> scale = {};  ///< 1 / sqrt(E)
  bool enable_gqa = false;           ///< several heads of q, one after the other, read one of k and v
};

/// softmax(scale q k^T + mask) v. A bool mask says which keys take part in a query, a floating one is added
/// to the scores. A query in which no key takes part (all scores -inf) has the result 0. Dropout zeroes
/// weights with probability dropout_p and divides all others by 1 - dropout_p.
/// Shapes: q [.., L, E], k [.., S, E], v [.., S, V] -> [.., L, V], leading dims broadcast. The mask
/// broadcasts to [.., L, S]. With enable_gqa q is [.., H, L, E], k [.., Hk, S, E] and v [.., Hv, S, V], where
/// Hk and Hv divide H: head h of q reads head h / (H / Hk) of k, which is not copied.
/// Dtypes: q, k and v of one floating dtype, which the result has; the mask bool, f32 or of theirs.
/// Layout: the result of a q of 4 dims lies in memory in q's order of dims, and gradients in their inputs',
/// so heads that were split off a [B, L, H, E] tensor are joined again without a copy.
///
/// Runs in the low precision of an autocast region, floating masks too. 16-bit values are computed in f32 and
/// rounded once; on a CUDA device the weights are rounded too, for its matrix units, and in backward the
/// gradients of scores. q, k and v are read where they lie if the elements of their last dim are neighbours,
/// as in heads of a [B, L, H, E] tensor. Memory beyond the result: one number per query, and a few tiles per
/// thread; a gradient of the mask, and gradients of gradients, hold matrices [.., L, S]. Differentiable to
/// any order.
/// Throws: DTypeError, ShapeError (fewer than 2 dims, 3 with enable_gqa, sizes that do not belong together),
/// ValueError (dropout_p outside of [0, 1], a scale that is not finite, a mask together with is_causal).
/// Source: torch.nn.functional.scaled_dot_product_attention; Dao et al., "FlashAttention", 2022; Rabe and
/// Staats, "Self-attention does not need O(n^2) memory", 2021; Ainslie et al., "GQA", 2023.
[[nodiscard]] Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                  const AttentionOptions& options = {},
                                                  Generator& generator = default_generator());

}  // namespace mezzo
