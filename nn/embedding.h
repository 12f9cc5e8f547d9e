// Embedding: a table of vectors, looked up by index.
#pragma once

#include <optional>

#include "mezzo/core/random.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/embedding.h"

namespace mezzo::nn {

/// Options of Embedding; the function's options are in ops/embedding.h.
struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  ///< a row of zeros without gradient; negative: from the end
  std::optional<double> max_norm = {};           ///< rows that are read are scaled down to it, in place
  double norm_type = 2;
  bool scale_grad_by_freq = false;
  DType dtype = DType::f32;
  Device device = Device::cpu();
  Generator* generator = nullptr;  ///< of the first values; nullptr: the default one
};

/// Indices [..] -> rows [.., embedding_dim] of weight, [num_embeddings, embedding_dim], which begins standard
/// normal (as torch.nn.Embedding). Throws: ValueError for sizes below 1 and a padding_idx that is no row;
/// forward throws what `embedding` throws.
class Embedding : public Layer {
 public:
  using Options = EmbeddingOptions;
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options = {});
  Embedding(const Embedding& original, ShareTensors);
  [[nodiscard]] Tensor forward(const Tensor& index) override;
  /// Draws the weight anew and zeroes the padding row.
  void reset_parameters(Generator& generator = default_generator());
  [[nodiscard]] const std::optional<double>& max_norm() const noexcept { return options_.max_norm; }
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;

 protected:
  /// The table that forward reads rows of. A parametrization (nn/parametrizations.h) computes it.
  [[nodiscard]] virtual Tensor computed_weight() const { return weight; }
  /// Rows of a table of num_embeddings rows, of any width, as forward reads those of its own.
  [[nodiscard]] Tensor rows_of(const Tensor& table, const Tensor& index) const;

 private:
  std::int64_t num_embeddings_, embedding_dim_;
  EmbeddingOptions options_;
};

/// Options of EmbeddingBag; the function's options are in ops/embedding.h.
struct EmbeddingBagLayerOptions {
  std::optional<double> max_norm = {};  ///< rows that are read are scaled down to it, in place
  double norm_type = 2;
  bool scale_grad_by_freq = false;
  BagMode mode = BagMode::mean;
  bool include_last_offset = false;              ///< the last offset is where the last bag ends
  std::optional<std::int64_t> padding_idx = {};  ///< a row of zeros that takes no part in its bag
  DType dtype = DType::f32;
  Device device = Device::cpu();
  Generator* generator = nullptr;  ///< of the first values; nullptr: the default one
};

/// `embedding_bag`: sums, means or largest elements of rows of weight, [num_embeddings, embedding_dim], which
/// begins as Embedding's. forward takes the indices of bags in rows [bags, n], or [n] with offsets [bags].
/// Throws: as Embedding; forward what `embedding_bag` throws.
class EmbeddingBag final : public Module {
 public:
  using Options = EmbeddingBagLayerOptions;
  EmbeddingBag(std::int64_t num_embeddings, std::int64_t embedding_dim,
               const EmbeddingBagLayerOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& index, const Tensor& offsets = {},
                               const Tensor& per_sample_weights = {});
  [[nodiscard]] Tensor operator()(const Tensor& index, const Tensor& offsets = {},
                                  const Tensor& per_sample_weights = {}) {
    return call(*this, index, offsets, per_sample_weights);
  }
  /// Draws the weight anew and zeroes the padding row.
  void reset_parameters(Generator& generator = default_generator());
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;

 private:
  EmbeddingBagOptions options_;
};

}  // namespace mezzo::nn
