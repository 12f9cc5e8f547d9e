// Embedding: a table of vectors, looked up by index.
#pragma once

#include <optional>

#include "mezzo/core/random.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// Options of Embedding; those of the function are in ops/embedding.h.
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
class Embedding final : public Layer {
 public:
  using Options = EmbeddingOptions;
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& index) override;
  /// Draws the weight anew and zeroes the padding row.
  void reset_parameters(Generator& generator = default_generator());
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;

 private:
  std::optional<std::int64_t> padding_idx_;
  std::optional<double> max_norm_;
  double norm_type_;
  bool scale_grad_by_freq_;
};

}  // namespace mezzo::nn
