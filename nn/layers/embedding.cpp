// Checks of sizes and padding_idx of Embedding and EmbeddingBag, and their normal first values with zeros in
// the padding row.
#include "mezzo/nn/embedding.h"

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/ops.h"

namespace mezzo::nn {

namespace {

/// For the options of either layer.
template <class Options>
Tensor unfilled(const char* layer, std::int64_t rows, std::int64_t width, const Options& options) {
  if (rows < 1 || width < 1) {
    throw ValueError(layer, "num_embeddings and embedding_dim of at least 1",
                     std::to_string(rows) + " and " + std::to_string(width), "check the layer's sizes");
  }
  const std::optional<std::int64_t>& padding = options.padding_idx;
  if (padding && (*padding < -rows || *padding >= rows)) {
    throw ValueError(layer, "a padding_idx of one of the " + std::to_string(rows) + " rows",
                     std::to_string(*padding), "leave it out for none");
  }
  return empty({rows, width}, {.dtype = options.dtype, .device = options.device});
}

/// Standard normal, with zeros in the padding row.
void fill(const Tensor& weight, const std::optional<std::int64_t>& padding_idx, Generator& generator) {
  init::normal_(weight, 0, 1, generator);
  if (!padding_idx) return;
  const NoGrad no_grad;
  select(weight, 0, *padding_idx).zero_();
}

std::string sizes_text(std::int64_t rows, std::int64_t width, const std::optional<std::int64_t>& padding_idx,
                       const std::optional<double>& max_norm) {
  std::string text = std::to_string(rows) + ", " + std::to_string(width);
  if (padding_idx) text += ", padding_idx=" + std::to_string(*padding_idx);
  if (max_norm) text += ", max_norm=" + Value(*max_norm).to_string();
  return text;
}

}  // namespace

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options)
    : weight(*this, "weight", unfilled("Embedding", num_embeddings, embedding_dim, options)),
      num_embeddings_(num_embeddings),
      embedding_dim_(embedding_dim),
      options_(options) {
  reset_parameters(detail::or_default(options.generator));
}

Embedding::Embedding(const Embedding& original, ShareTensors /*tag*/)
    : weight(*this, "weight", original.weight),
      num_embeddings_(original.num_embeddings_),
      embedding_dim_(original.embedding_dim_),
      options_(original.options_) {}

void Embedding::reset_parameters(Generator& generator) { fill(weight, options_.padding_idx, generator); }

Tensor Embedding::forward(const Tensor& index) { return rows_of(computed_weight(), index); }

Tensor Embedding::rows_of(const Tensor& table, const Tensor& index) const {
  return embedding(index, table, options_.padding_idx, options_.scale_grad_by_freq, options_.max_norm,
                   options_.norm_type);
}

std::string Embedding::extra_repr() const {
  return sizes_text(num_embeddings_, embedding_dim_, options_.padding_idx, options_.max_norm);
}

EmbeddingBag::EmbeddingBag(std::int64_t num_embeddings, std::int64_t embedding_dim,
                           const EmbeddingBagLayerOptions& options)
    : weight(*this, "weight", unfilled("EmbeddingBag", num_embeddings, embedding_dim, options)),
      options_{.mode = options.mode,
               .max_norm = options.max_norm,
               .norm_type = options.norm_type,
               .scale_grad_by_freq = options.scale_grad_by_freq,
               .include_last_offset = options.include_last_offset,
               .padding_idx = options.padding_idx} {
  reset_parameters(detail::or_default(options.generator));
}

void EmbeddingBag::reset_parameters(Generator& generator) { fill(weight, options_.padding_idx, generator); }

Tensor EmbeddingBag::forward(const Tensor& index, const Tensor& offsets, const Tensor& per_sample_weights) {
  EmbeddingBagOptions options = options_;
  options.per_sample_weights = per_sample_weights;
  return embedding_bag(index, weight, offsets, options);
}

std::string EmbeddingBag::extra_repr() const {
  constexpr const char* kModes[] = {"sum", "mean", "max"};
  return sizes_text(weight->size(0), weight->size(1), options_.padding_idx, options_.max_norm) +
         ", mode=" + kModes[static_cast<std::size_t>(options_.mode)];
}

}  // namespace mezzo::nn
