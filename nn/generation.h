// Generating text step by step: keys and values of the steps before, kept in memory that is allocated once,
// and the choice of the next token from a model's scores.
#pragma once

#include <optional>

#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"

namespace mezzo::nn {

/// Options of KeyValueCache.
struct KeyValueCacheOptions {
  std::optional<std::int64_t> value_size = {};  ///< features of a value; as many as of a key
  DType dtype = DType::f32;
  Device device = Device::cpu();
};

/// Keys and values [N, H, length, size].
struct KeyValues {
  Tensor keys, values;
};

/// Keys and values of an attention's past steps. Each new step appends its own and attends to all:
///   const auto [k, v] = cache.append(new_k, new_v);
///   scaled_dot_product_attention(q, k, v, {.attn_mask = cache.causal_mask(q.size(2))});
/// It returns views of its memory, which a later append does not move; for generation, not for training.
/// Copies of a cache share its memory.
class KeyValueCache {
 public:
  using Options = KeyValueCacheOptions;
  /// Throws: ValueError for negative sizes, ShapeError for more elements than there can be, DTypeError for a
  /// dtype that is not floating.
  KeyValueCache(std::int64_t batch, std::int64_t num_heads, std::int64_t max_length, std::int64_t key_size,
                const KeyValueCacheOptions& options = {});
  /// Copies keys [N, H, L, key_size] and values [N, H, L, value_size] behind those that are there. Gives all.
  /// Throws, and changes nothing: ShapeError, DTypeError and DeviceError for what does not fit, ValueError
  /// where max_length is passed, AutogradError for a history while recording is on (NoGrad).
  KeyValues append(const Tensor& keys, const Tensor& values);
  [[nodiscard]] KeyValues get() const;
  /// [queries, length], true where a key takes part: the queries belong to the last keys, and none reads a
  /// later one. Throws: ValueError for more queries than keys, or fewer than 0.
  [[nodiscard]] Tensor causal_mask(std::int64_t queries) const;
  /// Forgets all steps but the first `length`; 0: all. Throws: ValueError outside of [0, length()].
  void truncate(std::int64_t length);
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] std::int64_t max_length() const { return keys_.size(2); }

 private:
  Tensor keys_, values_;
  std::int64_t length_ = 0;
};

/// Options of sample_logits.
struct SampleOptions {
  double temperature = 1;  ///< scores are divided by it; 0: the largest one is taken
  std::int64_t top_k = 0;  ///< of the top_k largest; 0: of all
  double top_p = 1;        ///< of the fewest whose probabilities add up to top_p
};
/// Draws one position of the last dim by softmax(logits / temperature), among those that top_k and then top_p
/// leave. -inf is never drawn. The host reads whether the logits are fit.
/// Shapes: logits [.., V] -> [..].
/// Dtypes: floating (DTypeError) -> i64.
/// Throws: ShapeError for no dims and a V of 0; ValueError for logits with NaN or inf or all of -inf, a
/// temperature that is negative or not finite, a negative top_k and a top_p outside of [0, 1]. Source:
/// Holtzman et al., "The curious case of neural text degeneration", 2020 (top_p).
[[nodiscard]] Tensor sample_logits(const Tensor& logits, const SampleOptions& options = {},
                                   Generator& generator = default_generator());
/// The k largest logits of the last dim, of equal logits the first, and -inf for all others; logits
/// themselves where there are no more than k. Throws: ShapeError, DTypeError, ValueError for a k below 1.
[[nodiscard]] Tensor top_k_logits(const Tensor& logits, std::int64_t k);
/// The largest logits of the last dim whose probabilities add up to p or more, as few as do and at least one,
/// and -inf for all others; logits themselves for a p of 1. Probabilities are computed in f32 (f64). Throws:
/// ShapeError, DTypeError, ValueError for a p outside of [0, 1].
[[nodiscard]] Tensor top_p_logits(const Tensor& logits, double p);

}  // namespace mezzo::nn
