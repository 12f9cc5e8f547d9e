// Where a step stands in its sequence, for attention: rotary embeddings of queries and keys, and ALiBi's
// distances for scores.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/ops/rotary.h"

namespace mezzo::nn {

/// Options of RotaryEmbedding.
struct RotaryEmbeddingOptions {
  double base = 10000;       ///< pair r of dim / 2 turns by position * base^(-2 r / dim)
  bool interleaved = false;  ///< pairs of neighbours, as in the paper; else of halves, as in LLaMA's files
};

/// Cosines and sines of angles, [.., dim / 2].
struct RotaryTables {
  Tensor cos, sin;
};

/// apply_rotary (ops/rotary.h) by angles that grow with the position, so that products of queries and keys
/// depend on their distance. Has no parameters and no state: angles are computed in f64 on x's device,
/// whatever the layer was converted to. Layers that read the same positions share `tables`.
class RotaryEmbedding final : public Layer {
 public:
  using Options = RotaryEmbeddingOptions;
  /// `dim`: how many features are turned: the first `dim`. Throws: ValueError unless dim is even and at least
  /// 2, and base is finite and above 0.
  explicit RotaryEmbedding(std::int64_t dim, const RotaryEmbeddingOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& x) override { return forward(x, 0); }
  /// x [.., L, D] with D of at least dim, whose steps are at positions offset, offset + 1, ... Throws:
  /// ShapeError, naming the layer's path.
  [[nodiscard]] Tensor forward(const Tensor& x, std::int64_t offset);
  /// forward with given positions, numbers of a shape that broadcasts to x's without the last dim: [L], or
  /// [N, 1, L] for x [N, H, L, D].
  [[nodiscard]] Tensor forward(const Tensor& x, const Tensor& positions);
  [[nodiscard]] Tensor operator()(const Tensor& x, std::int64_t offset = 0) { return call(*this, x, offset); }
  [[nodiscard]] Tensor operator()(const Tensor& x, const Tensor& positions) {
    return call(*this, x, positions);
  }
  /// Tables for positions of any shape [..], in `dtype`: [.., dim / 2]. Throws: DTypeError for bools and a
  /// `dtype` that is not floating.
  [[nodiscard]] RotaryTables tables(const Tensor& positions, DType dtype = DType::f32) const;
  [[nodiscard]] std::int64_t dim() const noexcept { return dim_; }
  [[nodiscard]] std::string extra_repr() const override;

 private:
  void require_input(const Tensor& x) const;

  std::int64_t dim_;
  RotaryEmbeddingOptions options_;
};

/// The factors of distances of each head: 2^(-8 h / H), h = 1 .. H, for an H that is a power of 2; else the
/// factors of the power below, and then every other factor of the power above. Shapes: -> [num_heads].
/// Throws: ValueError for a num_heads below 1, DTypeError. Source: Press et al., "Train short, test long",
/// 2022.
[[nodiscard]] Tensor alibi_slopes(std::int64_t num_heads, const TensorOptions& options = {});

/// Options of alibi_bias.
struct AlibiOptions {
  bool is_causal = false;  ///< -inf for keys after the query
  DType dtype = DType::f32;
  Device device = Device::cpu();
};
/// ALiBi's term of the scores, for scaled_dot_product_attention's attn_mask: -slope |distance|. The queries
/// are the last of the keys' positions, as when the first keys are in a cache: query l is at keys - queries +
/// l.
/// Shapes: -> [num_heads, queries, keys].
/// Throws: as alibi_slopes, and ValueError for negative sizes.
[[nodiscard]] Tensor alibi_bias(std::int64_t num_heads, std::int64_t queries, std::int64_t keys,
                                const AlibiOptions& options = {});

}  // namespace mezzo::nn
