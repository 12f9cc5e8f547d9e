// Ops between indices and vectors: embedding, one_hot. Indices are i64 (embedding takes i32 too; DTypeError).
// An index out of range throws IndexError on the CPU; on a CUDA device, which is not waited for, it counts as
// a row of zeros and throws at the next synchronisation (core/cuda/fault.h).
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/core/tensor.h"

namespace mezzo {

/// Rows of `weight` in the order of `index`. Rows at `padding_idx` (counted from the end when negative) are
/// read but get no gradient; with `scale_grad_by_freq`, the gradient of a row is divided by how often it was
/// read. With `max_norm`, embedding_renorm_ changes the weight before. Differentiable to any order in the
/// weight; its gradient is summed in f64 in an order that the indices of a row say: the same on every device.
/// Shapes: index [..], weight [n, width] -> [.., width].
/// Dtypes: index i64 or i32, weight any -> weight's.
/// Throws: ShapeError, DTypeError, ValueError.
[[nodiscard]] Tensor embedding(const Tensor& index, const Tensor& weight,
                               std::optional<std::int64_t> padding_idx = {}, bool scale_grad_by_freq = false,
                               std::optional<double> max_norm = {}, double norm_type = 2);
/// Scales each row of `weight` that `index` names and whose norm_type-norm exceeds max_norm, in place, as
/// renorm (ops/distance.h) does; returns weight. Never recorded, and allowed on leaves that require grad.
/// Throws: what renorm throws, and ShapeError for a weight whose elements share memory.
const Tensor& embedding_renorm_(const Tensor& weight, const Tensor& index, double max_norm,
                                double norm_type = 2);
/// The gradient of embedding's weight: for each of `num_embeddings` rows the sum of the rows of `grad` at its
/// indices, but for `padding_idx`.
/// Shapes: grad [.., width], index [..] -> [num_embeddings, width].
/// Dtypes: grad floating, index i64 or i32 -> `dtype`, which is floating, or else grad's.
[[nodiscard]] Tensor embedding_backward(const Tensor& grad, const Tensor& index, std::int64_t num_embeddings,
                                        std::optional<std::int64_t> padding_idx = {},
                                        std::optional<DType> dtype = {});

/// How embedding_bag reduces the rows of one bag.
enum class BagMode : std::uint8_t { sum, mean, max };

/// torch's arguments after input, weight and offsets.
struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  std::optional<double> max_norm = {};  ///< as in embedding
  double norm_type = 2;
  bool scale_grad_by_freq = false;
  Tensor per_sample_weights = {};                ///< a factor per index, for `sum` only
  bool include_last_offset = false;              ///< the last offset is where the last bag ends
  std::optional<std::int64_t> padding_idx = {};  ///< indices that take no part in their bag
};

/// Sum, mean or largest elements of the rows of `weight` in each bag; zeros for an empty one. Each row of a
/// 2-dim index is a bag; of a 1-dim index bag b is what stands from offsets[b] on, up to the next one. Where
/// elements are equally large, `max` gives each an equal part of the gradient. Sums in f64, in the order of
/// the indices. Differentiable to any order in weight and per_sample_weights. Offsets are read by the host.
/// Shapes: index [n] with offsets [bags], or [bags, n] without; weight [rows, width]; per_sample_weights the
/// index's -> [bags, width].
/// Dtypes: index and offsets i64 or i32; weight floating, which per_sample_weights share -> weight's.
/// Throws: ShapeError, DTypeError, and ValueError for offsets that do not begin with 0, fall, or exceed n,
/// for factors with another mode than `sum`, and for what embedding refuses. Source:
/// torch.nn.functional.embedding_bag.
[[nodiscard]] Tensor embedding_bag(const Tensor& index, const Tensor& weight, const Tensor& offsets = {},
                                   const EmbeddingBagOptions& options = {});

/// 1 at each index and 0 elsewhere. -1 takes the largest index + 1, which reads a value back to the host.
/// Shapes: [..] -> [.., num_classes].
/// Dtypes: i64 -> i64.
/// Throws: ValueError for another number below 1, for -1 without indices, and for -1 with an index of 2^60 or
/// above, which no dim can hold; IndexError for an index that is not below num_classes.
[[nodiscard]] Tensor one_hot(const Tensor& index, std::int64_t num_classes = -1);

}  // namespace mezzo
