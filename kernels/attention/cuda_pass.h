// The kernel of attention and of its three gradients. A block makes a tile of rows of one result: it walks
// over the tiles of the other side, computes the scores of both anew, makes weights of them and adds the
// weighted rows of a third matrix. So nothing is added up by several blocks, and the bits depend on sizes
// only; the price is eight products for all gradients where five would do with atomic additions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/attention/attention.h"
#include "mezzo/kernels/attention/attention_math.h"
#include "mezzo/kernels/attention/cuda_mma_tiles.h"
#include "mezzo/kernels/attention/cuda_tiles.h"

namespace mezzo::kernels::cuda {

enum class AttentionResult { output, queries, keys, values };

/// What one launch computes: row r of `out` is the sum over c of weight(r, c) * row c of z, where the weight
/// comes of the score, which is row r of x times row c of y, and in the gradients of queries and keys of row
/// r of grad_x times row c of grad_y. Rows are queries and columns are keys for output and queries, and the
/// reverse for keys and values.
template <class T>
struct AttentionPass {
  TileSource x, y, grad_x, grad_y, z, out;
  std::int64_t heads = 0, queries = 0, keys = 0;
  Array mask;  ///< no data: none
  std::int64_t mask_steps[4] = {};
  bool causal = false;
  T scale = 1;
  const std::int64_t* seed = nullptr;  ///< nullptr: no dropout
  std::uint64_t keep_threshold = 0;
  T keep_factor = 1;
  T* logsumexp = nullptr;    ///< [B, H, queries], written for output and read for gradients
  const T* delta = nullptr;  ///< [B, H, queries]: gradient times output, summed over a row
  /// Pieces of work: tiles of rows of all heads, for every piece of the result's columns.
  std::int64_t tiles = 0, pieces = 0, items = 0;
};

/// A tile of one result, in a block of Tiles::kThreads threads. Sources give 0 outside of their rows and
/// columns, and weights outside of the matrix are 0; masks, numbers of queries and the result are touched
/// inside only. All threads of a block walk over the same tiles, so that all of them meet every barrier.
template <class Tiles, AttentionResult kResult>
class AttentionBlock {
 public:
  using T = typename Tiles::Number;

  __device__ AttentionBlock(const AttentionPass<T>& pass, std::int64_t item) : pass_(pass) {
    out_begin_ = item % pass.pieces * Tiles::kOutWidth;
    item /= pass.pieces;
    // The last queries have the most keys under a causal mask, and are begun first.
    const std::int64_t tile = kQueriesAreRows ? pass.tiles - 1 - item % pass.tiles : item % pass.tiles;
    row_begin_ = tile * Tiles::kSide;
    head_ = item / pass.tiles;
    MEZZO_UNROLL
    for (int q = 0; q < kQueries; ++q) {
      if (kQueriesAreRows && kResult != AttentionResult::output) load_query(q, row_begin_ + Tiles::row(q));
    }
  }

  __device__ void run() {
    const std::int64_t batch = head_ / pass_.heads, head = head_ % pass_.heads;
    const TileSource x = pass_.x.of(batch, head), y = pass_.y.of(batch, head), z = pass_.z.of(batch, head);
    std::int64_t begin = 0, end = y.rows;
    if (pass_.causal) {
      if (kQueriesAreRows)
        end = end < row_begin_ + Tiles::kSide ? end : row_begin_ + Tiles::kSide;
      else
        begin = row_begin_;
    }
    for (column_begin_ = begin; column_begin_ < end; column_begin_ += Tiles::kSide) {
      Square weights;
      Tiles::dot(x, row_begin_, y, column_begin_, weights);
      set_scores(batch, head, weights);
      if constexpr (kResult == AttentionResult::output) {
        weigh_forward(weights);
      } else {
        weigh_backward(batch, head, weights);
      }
      Tiles::add_weighted(weights, z, column_begin_, out_begin_, sums_);
    }
    finish(pass_.out.of(batch, head));
  }

 private:
  using Square = T[Tiles::kRows][Tiles::kColumns];
  static constexpr bool kQueriesAreRows =
      kResult == AttentionResult::output || kResult == AttentionResult::queries;
  static constexpr bool kNeedsDelta = kResult == AttentionResult::queries || kResult == AttentionResult::keys;
  static constexpr int kQueries = kQueriesAreRows ? Tiles::kRows : Tiles::kColumns;
  static constexpr T kNothing = -std::numeric_limits<T>::infinity();

  /// f(i, j, query, key) for every weight of the thread; query and key count from the first ones of the tile.
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
    constexpr int kFar = 2 * Tiles::kSide;
    return x > kFar ? kFar : x < -kFar ? -kFar : static_cast<int>(x);
  }

  /// Products into scores; -inf where a key takes no part and outside of the matrix.
  __device__ MEZZO_ALWAYS_INLINE void set_scores(std::int64_t batch, std::int64_t head,
                                                 Square& scores) const {
    const int queries = near(pass_.queries - query_begin()), keys = near(pass_.keys - key_begin());
    const int diagonal = pass_.causal ? near(query_begin() - key_begin()) : 2 * Tiles::kSide;
    each([&](int i, int j, int query, int key) {
      const bool outside = query >= queries || key >= keys || key - query > diagonal;
      scores[i][j] = outside ? kNothing : scores[i][j] * pass_.scale;
    });
    if (pass_.mask.data == nullptr) return;
    const std::int64_t(&steps)[4] = pass_.mask_steps;
    const std::int64_t at =
        batch * steps[0] + head * steps[1] + query_begin() * steps[2] + key_begin() * steps[3];
    const auto apply = [&](auto stored) {
      using S = decltype(stored);
      each([&](int i, int j, int query, int key) {
        if (query >= queries || key >= keys) return;
        const S mask = static_cast<const S*>(pass_.mask.data)[at + query * steps[2] + key * steps[3]];
        if constexpr (!std::is_same_v<S, BoolByte>)
          scores[i][j] += cast<T>(mask);
        else if (cast<T>(mask) == T(0))
          scores[i][j] = kNothing;
      });
    };
    pass_.mask.dtype == DType::boolean ? apply(BoolByte{})
                                       : with_stored<Among::floating>(pass_.mask.dtype, apply);
  }

  /// Multiplies by what dropout multiplies the weights by.
  __device__ MEZZO_ALWAYS_INLINE void drop(Square& values) const {
    if (pass_.seed == nullptr) return;
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

  /// Scores into exp(score - largest so far); what was added up before is brought to the new largest.
  __device__ MEZZO_ALWAYS_INLINE void weigh_forward(Square& weights) {
    MEZZO_UNROLL
    for (int i = 0; i < Tiles::kRows; ++i) {
      T largest = kNothing;
      MEZZO_UNROLL
      for (int j = 0; j < Tiles::kColumns; ++j) largest = weights[i][j] > largest ? weights[i][j] : largest;
      const T factor = softmax_[i].advance(reduce_across(largest, [](T a, T b) { return a > b ? a : b; }));
      MEZZO_UNROLL
      for (int j = 0; j < Tiles::kOutColumns; ++j) sums_[i][j] *= factor;
      MEZZO_UNROLL
      for (int j = 0; j < Tiles::kColumns; ++j) {
        weights[i][j] = math::exp_nonpositive(weights[i][j] - softmax_[i].shift());
        softmax_[i].sum += weights[i][j];
      }
    }
    drop(weights);
  }

  __device__ MEZZO_ALWAYS_INLINE void load_query(int q, std::int64_t query) {
    const bool inside = query < pass_.queries;
    const std::int64_t at = head_ * pass_.queries + query;
    shift_[q] = inside ? attention_shift(pass_.logsumexp[at]) : T(0);
    if (kNeedsDelta) delta_[q] = inside ? pass_.delta[at] : T(0);
  }

  /// Scores into the softmax p (for the values) or the gradient of the score, by p.
  __device__ MEZZO_ALWAYS_INLINE void weigh_backward(std::int64_t batch, std::int64_t head, Square& weights) {
    if constexpr (!kQueriesAreRows) {
      MEZZO_UNROLL
      for (int j = 0; j < Tiles::kColumns; ++j) load_query(j, column_begin_ + Tiles::column(j));
    }
    each([&](int i, int j, int /*query*/, int /*key*/) {
      weights[i][j] = math::exp(weights[i][j] - shift_[kQueriesAreRows ? i : j]);
    });
    if constexpr (kNeedsDelta) {
      Square grads;
      Tiles::dot(pass_.grad_x.of(batch, head), row_begin_, pass_.grad_y.of(batch, head), column_begin_,
                 grads);
      drop(grads);
      each([&](int i, int j, int /*query*/, int /*key*/) {
        weights[i][j] *= grads[i][j] - delta_[kQueriesAreRows ? i : j];
      });
    } else {
      drop(weights);
    }
  }

  __device__ MEZZO_ALWAYS_INLINE void finish(const TileSource& out) {
    MEZZO_UNROLL
    for (int i = 0; i < Tiles::kRows; ++i) {
      const std::int64_t row = row_begin_ + Tiles::row(i);
      // The scale comes last: so the gradients of scores, as 16-bit operands, have one factor less to
      // underflow by.
      T factor = kNeedsDelta ? pass_.scale : T(1);
      if constexpr (kResult == AttentionResult::output) {
        softmax_[i].sum = reduce_across(softmax_[i].sum, [](T a, T b) { return a + b; });
        factor = softmax_[i].inverse();
        if (row < pass_.queries && out_begin_ == 0 && Tiles::column(0) == 0)
          pass_.logsumexp[head_ * pass_.queries + row] = softmax_[i].logsumexp();
      }
      MEZZO_UNROLL
      for (int j = 0; j < Tiles::kOutColumns; ++j) sums_[i][j] *= factor;
    }
    with_stored<Among::floating>(out.array.dtype, [&](auto stored) {
      using S = decltype(stored);
      MEZZO_UNROLL
      for (int i = 0; i < Tiles::kRows; ++i) {
        const std::int64_t row = row_begin_ + Tiles::row(i);
        MEZZO_UNROLL
        for (int j = 0; j < Tiles::kOutColumns; ++j) {
          const std::int64_t column = out_begin_ + Tiles::out_column(j);
          if (row >= out.rows || column >= out.width) continue;
          static_cast<S*>(out.array.data)[out.begin + row * out.row_step + column] = cast<S>(sums_[i][j]);
        }
      }
    });
  }

  const AttentionPass<T>& pass_;
  std::int64_t out_begin_ = 0, row_begin_ = 0, column_begin_ = 0;
  std::int64_t head_ = 0;  ///< of all heads of all batch entries
  T sums_[Tiles::kRows][Tiles::kOutColumns] = {};
  OnlineSoftmax<T> softmax_[Tiles::kRows];
  T shift_[kQueries] = {}, delta_[kQueries] = {};
};

template <class Tiles, AttentionResult kResult>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocksOfProcessor)
    attention_kernel(AttentionPass<typename Tiles::Number> pass) {
  for (std::int64_t item = blockIdx.x; item < pass.items; item += gridDim.x)
    AttentionBlock<Tiles, kResult>(pass, item).run();
}

/// Fills in the pieces of work and starts the kernel.
template <class Tiles, AttentionResult kResult, class T>
void launch_attention_tiles(Device device, AttentionPass<T> pass, std::int64_t batch) {
  const auto parts = [](std::int64_t n, std::int64_t size) { return (n + size - 1) / size; };
  pass.tiles = parts(pass.x.rows, Tiles::kSide);
  pass.pieces = std::max<std::int64_t>(parts(pass.out.width, Tiles::kOutWidth), 1);
  pass.items = batch * pass.heads * pass.tiles * pass.pieces;
  constexpr std::int64_t kMostBlocksOfGrid = std::numeric_limits<std::int32_t>::max();
  mezzo::cuda::launch(attention_kernel<Tiles, kResult>,
                      dim3(static_cast<unsigned>(std::min(pass.items, kMostBlocksOfGrid))),
                      dim3(Tiles::kThreads), Tiles::kBytes, mezzo::cuda::current_stream(device), pass);
}

/// With the narrowest tiles, of 32, 64 or 128 columns (f64: 64), that have all columns of the result; of more
/// columns each 128 (f64: 64) are pieces of work of their own.
template <AttentionResult kResult, class T>
void launch_attention(Device device, const AttentionPass<T>& pass, std::int64_t batch) {
  const std::int64_t width = pass.out.width;
  const auto launch = [&](auto tiles) {
    launch_attention_tiles<typename decltype(tiles)::type, kResult>(device, pass, batch);
  };
  const auto by_matrix_unit = [&](auto stored) {
    using S = decltype(stored);
    if (width <= 32) return launch(TypeTag<MmaTiles<S, 8>>{});
    width <= 64 ? launch(TypeTag<MmaTiles<S, 16>>{}) : launch(TypeTag<MmaTiles<S, 32>>{});
  };
  if constexpr (std::is_same_v<T, double>) {
    launch(TypeTag<FmaTiles<T, 4>>{});
  } else {
    if (pass.x.array.dtype == DType::f16) return by_matrix_unit(Half{});
    if (pass.x.array.dtype == DType::bf16) return by_matrix_unit(BFloat16{});
    if (width <= 32) return launch(TypeTag<FmaTiles<T, 2>>{});
    width <= 64 ? launch(TypeTag<FmaTiles<T, 4>>{}) : launch(TypeTag<FmaTiles<T, 8>>{});
  }
}

[[nodiscard]] inline TileSource keys_of(const Attention& attention) {
  return TileSource(attention.k, attention.readers(attention.k));
}
[[nodiscard]] inline TileSource values_of(const Attention& attention) {
  return TileSource(attention.v, attention.readers(attention.v));
}

/// What all passes over the same scores have in common, with rows and columns as the result has them.
template <class T>
[[nodiscard]] AttentionPass<T> pass_of(const Attention& attention, bool queries_are_rows, void* logsumexp) {
  AttentionPass<T> pass;
  pass.x = TileSource(attention.q);
  pass.y = keys_of(attention);
  if (!queries_are_rows) std::swap(pass.x, pass.y);
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
