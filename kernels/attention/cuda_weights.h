// The work of a block of attention on a tile of scores, whichever way their products are made: masks, the
// online softmax or the weights of backward, dropout, and the result's rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "mezzo/kernels/attention/attention_math.h"
#include "mezzo/kernels/attention/cuda_pass.h"
#include "mezzo/kernels/cuda/block.h"

namespace mezzo::kernels::cuda {

/// The weights of a tile of kRowSide rows and kColumnSide columns, of which each thread has the square of
/// rows Tiles::row(i) and columns Tiles::column(j); of the result it has columns Tiles::out_column(j) of the
/// same rows. Scores are in units of Tiles::Powers. Sources give 0 outside of their rows and columns, and
/// weights outside of the matrix are 0; masks, numbers of queries and the result are touched inside only.
template <class Tiles, AttentionResult kResult>
class AttentionWeights {
 public:
  using T = typename Tiles::Number;

 protected:
  using Powers = typename Tiles::Powers;
  using Square = T[Tiles::kRows][Tiles::kColumns];
  using Sums = T[Tiles::kRows][Tiles::kOutColumns];
  static constexpr bool kForward = kResult == AttentionResult::output;
  static constexpr bool kQueriesAreRows = kForward || kResult == AttentionResult::queries;
  static constexpr bool kNeedsDelta = !kForward && kResult != AttentionResult::values;
  static constexpr int kQueries = kQueriesAreRows ? Tiles::kRows : Tiles::kColumns;
  static constexpr int kQuerySide = kQueriesAreRows ? Tiles::kRowSide : Tiles::kColumnSide;
  static constexpr int kKeySide = kQueriesAreRows ? Tiles::kColumnSide : Tiles::kRowSide;
  /// Of additions to the sum of a row's weights, which do not wait for each other.
  static constexpr int kChains = 4;
  static constexpr T kNothing = -std::numeric_limits<T>::infinity();

  __device__ AttentionWeights(const AttentionPass<T>& pass, std::int64_t item) : pass_(pass) {
    if constexpr (Tiles::kHasPieces) {
      out_begin_ = item % pass.pieces * Tiles::kOutWidth;
      item /= pass.pieces;
    }
    // The last queries have the most keys under a causal mask, and are begun first.
    const std::int64_t tile = kQueriesAreRows ? pass.tiles - 1 - item % pass.tiles : item % pass.tiles;
    row_begin_ = tile * Tiles::kRowSide;
    head_ = item / pass.tiles;
    batch_ = head_ / pass.heads;
    head_of_batch_ = head_ % pass.heads;
  }

  /// The matrix of `source` that belongs to the block's head.
  [[nodiscard]] __device__ TileSource of_head(const TileSource& source) const {
    return source.of(batch_, head_of_batch_);
  }
  /// The columns that a causal mask leaves: from first_column() on, and before last_column().
  [[nodiscard]] __device__ std::int64_t first_column() const {
    return pass_.causal && !kQueriesAreRows ? row_begin_ : 0;
  }
  [[nodiscard]] __device__ std::int64_t last_column(std::int64_t columns) const {
    const std::int64_t end = row_begin_ + Tiles::kRowSide;
    return pass_.causal && kQueriesAreRows && end < columns ? end : columns;
  }

  /// f(i, j, query, key) for every weight of the thread; query and key count from the first of the tile.
  template <class F>
  __device__ static MEZZO_ALWAYS_INLINE void each(const F& f) {
    MEZZO_UNROLL
    for (int i = 0; i < Tiles::kRows; ++i) {
      MEZZO_UNROLL
      for (int j = 0; j < Tiles::kColumns; ++j) {
        const int row = Tiles::row(i), column = Tiles::column(j);
        f(i, j, kQueriesAreRows ? row : column, kQueriesAreRows ? column : row);
      }
    }
  }
  [[nodiscard]] __device__ std::int64_t query_begin() const {
    return kQueriesAreRows ? row_begin_ : column_begin_;
  }
  [[nodiscard]] __device__ std::int64_t key_begin() const {
    return kQueriesAreRows ? column_begin_ : row_begin_;
  }
  /// `x` in 32 bits, which are enough to compare it with differences of places in a tile.
  [[nodiscard]] __device__ static int near(std::int64_t x) {
    constexpr int kFar = kQuerySide + kKeySide;
    return x > kFar ? kFar : x < -kFar ? -kFar : static_cast<int>(x);
  }

  /// Products into scores; -inf where a key takes no part and outside of the matrix. Of a plain call the
  /// products are the scores.
  __device__ MEZZO_ALWAYS_INLINE void set_scores(Square& scores) const {
    const int queries = near(pass_.queries - query_begin()), keys = near(pass_.keys - key_begin());
    const int diagonal = pass_.causal ? near(query_begin() - key_begin()) : kQuerySide + kKeySide;
    const bool whole = queries >= kQuerySide && keys >= kKeySide && diagonal >= kKeySide - 1;
    if constexpr (!Tiles::kPlain)
      each([&](int i, int j, int /*query*/, int /*key*/) { scores[i][j] *= pass_.score_scale; });
    if (!whole) {  // most tiles are
      each([&](int i, int j, int query, int key) {
        if (query >= queries || key >= keys || key - query > diagonal) scores[i][j] = kNothing;
      });
    }
    if (!Tiles::kPlain && pass_.mask.data != nullptr) add_mask(queries, keys, scores);
  }

  __device__ void add_mask(int queries, int keys, Square& scores) const {
    const std::int64_t(&steps)[4] = pass_.mask_steps;
    const std::int64_t at =
        batch_ * steps[0] + head_of_batch_ * steps[1] + query_begin() * steps[2] + key_begin() * steps[3];
    const auto apply = [&](auto stored) {
      using S = decltype(stored);
      each([&](int i, int j, int query, int key) {
        if (query >= queries || key >= keys) return;
        const S mask = static_cast<const S*>(pass_.mask.data)[at + query * steps[2] + key * steps[3]];
        if constexpr (!std::is_same_v<S, BoolByte>)
          scores[i][j] += cast<T>(mask) * Powers::kLogOfE;
        else if (cast<T>(mask) == T(0))
          scores[i][j] = kNothing;
      });
    };
    pass_.mask.dtype == DType::boolean ? apply(BoolByte{})
                                       : with_stored<Among::floating>(pass_.mask.dtype, apply);
  }

  /// Multiplies by what dropout multiplies the weights by.
  __device__ MEZZO_ALWAYS_INLINE void drop(Square& values) const {
    if (Tiles::kPlain || pass_.seed == nullptr) return;
    const AttentionWords words(pass_.seed);
    const std::int64_t first = (head_ * pass_.queries + query_begin()) * pass_.keys + key_begin();
    each([&](int i, int j, int query, int key) {
      const std::int64_t weight = first + query * pass_.keys + key;
      const PhiloxBlock four = words(weight / 4);
      // Not four[weight % 4], for which the words would have to be in memory.
      const std::uint32_t even = weight & 2 ? four[2] : four[0], odd = weight & 2 ? four[3] : four[1];
      values[i][j] *= (weight & 1 ? odd : even) < pass_.keep_threshold ? pass_.keep_factor : T(0);
    });
  }

  /// combine over the threads that share a row, in each of them.
  template <class Combine>
  [[nodiscard]] __device__ static MEZZO_ALWAYS_INLINE T reduce_across(T value, const Combine& combine) {
    MEZZO_UNROLL
    for (int distance = Tiles::kAcross / 2; distance > 0; distance /= 2)
      value = combine(value, __shfl_xor_sync(kWholeWarp, value, distance));
    return value;
  }

  /// The exponent of a weight, given the shift of its query: one instruction, whether the scale is applied
  /// here or was applied to the score.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE T exponent(T score, T shift) const {
    return add_product(-shift, score, pass_.exponent_scale);
  }

  /// Scores into exp(score - largest so far); what was added up before is brought to the new largest.
  __device__ MEZZO_ALWAYS_INLINE void weigh_forward(Square& weights, Sums& sums) {
    MEZZO_UNROLL
    for (int i = 0; i < Tiles::kRows; ++i) {
      T largest = kNothing;
      MEZZO_UNROLL
      for (int j = 0; j < Tiles::kColumns; ++j) largest = std::fmax(largest, weights[i][j]);
      largest = reduce_across(largest, [](T a, T b) { return std::fmax(a, b); });
      const T factor = softmax_[i].advance(largest * pass_.exponent_scale);
      MEZZO_UNROLL
      for (int j = 0; j < Tiles::kOutColumns; ++j) sums[i][j] *= factor;
      T added[kChains] = {};
      MEZZO_UNROLL
      for (int j = 0; j < Tiles::kColumns; ++j) {
        weights[i][j] = Powers::of_nonpositive(exponent(weights[i][j], softmax_[i].shift()));
        added[j % kChains] = j < kChains ? weights[i][j] : added[j % kChains] + weights[i][j];
      }
      softmax_[i].sum += (added[0] + added[1]) + (added[2] + added[3]);
    }
    drop(weights);
  }

  /// The shift of a query's scores in backward, and its sum of gradient times output.
  struct QueryNumbers {
    T shift = 0, delta = 0;
  };
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE QueryNumbers numbers_of(std::int64_t query) const {
    if (query >= pass_.queries) return {};
    const std::int64_t at = head_ * pass_.queries + query;
    return {shift_of(pass_.logsumexp[at]), kNeedsDelta ? pass_.delta[at] : T(0)};
  }
  [[nodiscard]] __device__ static MEZZO_ALWAYS_INLINE T shift_of(T logsumexp) {
    return attention_shift(logsumexp) * Powers::kLogOfE;
  }

  /// Scores into the softmax's weights p; shift(q) belongs to query q of the thread.
  template <class Shift>
  __device__ MEZZO_ALWAYS_INLINE void to_softmax(Square& weights, const Shift& shift) const {
    each([&](int i, int j, int /*query*/, int /*key*/) {
      weights[i][j] = Powers::of(exponent(weights[i][j], shift(kQueriesAreRows ? i : j)));
    });
  }
  /// p into the gradients of the scores, given the gradients of the weights after dropout.
  template <class Delta>
  __device__ MEZZO_ALWAYS_INLINE void to_score_gradients(Square& weights, Square& grads,
                                                         const Delta& delta) const {
    drop(grads);
    each([&](int i, int j, int /*query*/, int /*key*/) {
      weights[i][j] *= grads[i][j] - delta(kQueriesAreRows ? i : j);
    });
  }

  /// The factors that the sums of a row are still to be multiplied by; writes logsumexp.
  __device__ MEZZO_ALWAYS_INLINE void finish_softmax(T (&factors)[Tiles::kRows]) {
    MEZZO_UNROLL
    for (int i = 0; i < Tiles::kRows; ++i) {
      const std::int64_t row = row_begin_ + Tiles::row(i);
      softmax_[i].sum = reduce_across(softmax_[i].sum, [](T a, T b) { return a + b; });
      factors[i] = softmax_[i].inverse();
      if (row < pass_.queries && out_begin_ == 0 && Tiles::column(0) == 0)
        pass_.logsumexp[head_ * pass_.queries + row] = softmax_[i].logsumexp();
    }
  }
  /// Rows of the result = sums * factors, each rounded once.
  __device__ MEZZO_ALWAYS_INLINE void write(const TileSource& out, const Sums& sums,
                                            const T (&factors)[Tiles::kRows]) const {
    with_stored<Among::floating>(out.array.dtype, [&](auto stored) {
      using S = decltype(stored);
      MEZZO_UNROLL
      for (int i = 0; i < Tiles::kRows; ++i) {
        const std::int64_t row = row_begin_ + Tiles::row(i);
        MEZZO_UNROLL
        for (int j = 0; j < Tiles::kOutColumns; ++j) {
          const std::int64_t column = out_begin_ + Tiles::out_column(j);
          if (row >= out.rows || column >= out.width) continue;
          static_cast<S*>(out.array.data)[out.begin + row * out.row_step + column] =
              convert<S>(sums[i][j] * factors[i]);
        }
      }
    });
  }
  /// The scale comes last: so the gradients of scores, as 16-bit operands, have one factor less to underflow
  /// by.
  [[nodiscard]] __device__ static T factor_of(AttentionResult result, T scale) {
    return result == AttentionResult::values ? T(1) : scale;
  }

  const AttentionPass<T>& pass_;
  std::int64_t out_begin_ = 0, row_begin_ = 0, column_begin_ = 0;
  std::int64_t head_ = 0, batch_ = 0, head_of_batch_ = 0;  ///< head_: of all heads of all batch entries
  OnlineSoftmax<T, Powers> softmax_[kForward ? Tiles::kRows : 1];
};

}  // namespace mezzo::kernels::cuda
