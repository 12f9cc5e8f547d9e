// Embedding's checks of sizes and padding_idx, and its normal first values with zeros in the padding row.
#include "mezzo/nn/embedding.h"

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/embedding.h"
#include "mezzo/ops/shape.h"

namespace mezzo::nn {

namespace {

Tensor unfilled(std::int64_t rows, std::int64_t width, const EmbeddingOptions& options) {
  if (rows < 1 || width < 1) {
    throw ValueError("Embedding", "num_embeddings and embedding_dim of at least 1",
                     std::to_string(rows) + " and " + std::to_string(width), "check the layer's sizes");
  }
  const std::optional<std::int64_t>& padding = options.padding_idx;
  if (padding && (*padding < -rows || *padding >= rows)) {
    throw ValueError("Embedding", "a padding_idx of one of the " + std::to_string(rows) + " rows",
                     std::to_string(*padding), "leave it out for none");
  }
  return empty({rows, width}, {.dtype = options.dtype, .device = options.device});
}

}  // namespace

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options)
    : weight(*this, "weight", unfilled(num_embeddings, embedding_dim, options)),
      padding_idx_(options.padding_idx),
      max_norm_(options.max_norm),
      norm_type_(options.norm_type),
      scale_grad_by_freq_(options.scale_grad_by_freq) {
  reset_parameters(detail::or_default(options.generator));
}

void Embedding::reset_parameters(Generator& generator) {
  init::normal_(weight, 0, 1, generator);
  if (!padding_idx_) return;
  const NoGrad no_grad;
  select(weight, 0, *padding_idx_).zero_();
}

Tensor Embedding::forward(const Tensor& index) {
  return embedding(index, weight, padding_idx_, scale_grad_by_freq_, max_norm_, norm_type_);
}

std::string Embedding::extra_repr() const {
  std::string text = std::to_string(weight->size(0)) + ", " + std::to_string(weight->size(1));
  if (padding_idx_) text += ", padding_idx=" + std::to_string(*padding_idx_);
  if (max_norm_) text += ", max_norm=" + Value(*max_norm_).to_string();
  return text;
}

}  // namespace mezzo::nn
