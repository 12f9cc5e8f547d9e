// One launch of an attention kernel, whichever way its products are made: it computes the output, or a
// gradient.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "mezzo/kernels/attention/attention.h"
#include "mezzo/kernels/attention/attention_math.h"
#include "mezzo/kernels/attention/cuda_tiles.h"

namespace mezzo::kernels::cuda {

/// keys_and_values: both gradients (cuda_flash.h).
enum class AttentionResult { output, queries, keys, values, keys_and_values };

/// One launch: row r of `out` is the sum over columns c of weight(r, c) * row c of z. The weight is a
/// function of the score, row r of x times row c of y; for the gradients of queries and keys also of row r of
/// grad_x times row c of grad_y. Rows are queries and columns are keys for output and queries, the reverse
/// for keys and values. keys_and_values has the keys' gradient in `out` and the values' in `second_out`, with
/// grad_y for z.
template <class T>
struct AttentionPass {
  TileSource x, y, grad_x, grad_y, z, out, second_out;
  std::int64_t heads = 0, queries = 0, keys = 0;
  Array mask;  ///< no data: none
  std::int64_t mask_steps[4] = {};
  bool causal = false;
  T scale = 1;
  /// score = product * score_scale, exponent = score * exponent_scale: together they are the scale, in the
  /// unit of the kernel's powers.
  T score_scale = 1, exponent_scale = 1;
  const std::int64_t* seed = nullptr;  ///< nullptr: no dropout
  std::uint64_t keep_threshold = 0;
  T keep_factor = 1;
  T* logsumexp = nullptr;    ///< [B, H, queries], written for output and read for gradients
  const T* delta = nullptr;  ///< [B, H, queries]: gradient times output, summed over a row
  /// Pieces of work: tiles of rows of all heads, for every piece of the result's columns.
  std::int64_t tiles = 0, pieces = 0, items = 0;

  /// Into tiles of `side` rows and pieces of `piece_width` columns.
  void divide(std::int64_t batch, std::int64_t side, std::int64_t piece_width) {
    const auto parts = [](std::int64_t n, std::int64_t size) { return (n + size - 1) / size; };
    tiles = parts(x.rows, side);
    pieces = std::max<std::int64_t>(parts(out.width, piece_width), 1);
    items = batch * heads * tiles * pieces;
  }
  [[nodiscard]] unsigned blocks() const {
    return static_cast<unsigned>(std::min<std::int64_t>(items, std::numeric_limits<std::int32_t>::max()));
  }
};

[[nodiscard]] inline TileSource keys_of(const Attention& attention) {
  return TileSource(attention.k, attention.readers(attention.k));
}
[[nodiscard]] inline TileSource values_of(const Attention& attention) {
  return TileSource(attention.v, attention.readers(attention.v));
}

[[nodiscard]] inline bool are_joined(const Attention& attention) {
  return TileSource(attention.q).joined && keys_of(attention).joined && values_of(attention).joined;
}

/// The members that all passes over the same scores share, with queries as rows.
template <class T>
[[nodiscard]] AttentionPass<T> pass_of(const Attention& attention, void* logsumexp) {
  AttentionPass<T> pass;
  pass.x = TileSource(attention.q);
  pass.y = keys_of(attention);
  pass.heads = attention.q.shape[1];
  pass.queries = attention.q.shape[2];
  pass.keys = attention.k.shape[2];
  if (attention.mask.data != nullptr) {
    pass.mask = {attention.mask.data, attention.mask.dtype};
    for (std::size_t d = 0; d < 4; ++d) pass.mask_steps[d] = attention.mask.strides[d];
  }
  pass.causal = attention.causal;
  pass.scale = static_cast<T>(attention.scale);
  if (attention.dropout_p > 0) {
    pass.seed = attention.seed;
    pass.keep_threshold = keep_threshold(attention.dropout_p);
    pass.keep_factor = static_cast<T>(keep_factor(attention.dropout_p));
  }
  pass.logsumexp = static_cast<T*>(logsumexp);
  return pass;
}

}  // namespace mezzo::kernels::cuda
