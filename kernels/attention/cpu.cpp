// Attention in tiles of queries by keys, which never leave the cache of their thread: two products forward,
// five backward, and one pass over the tile between them. Everything is computed in the compute type, 16-bit
// rows are widened tile by tile. Most calls go by panels instead (cpu_panels.h), in the same order; what is
// here is for f64, for a few queries, as of a decoder that keeps its keys and values, and for small calls.
//
// Forward: a task is a block of queries of one head and walks over its keys with an online softmax. Backward:
// a task is a head, or a part of its keys where there are few heads, and walks over tiles of keys and,
// within, over blocks of queries: so the gradients of keys and values are added up in the cache, and the
// queries' once per tile. Parts are added up in order. Tasks depend on sizes only, so the bits do not depend
// on the number of threads.
//
// Source: Dao et al., "FlashAttention", 2022 (tiles and recomputation).
#include "mezzo/kernels/attention/attention.h"

#include "mezzo/kernels/attention/cpu_panels.h"
#include "mezzo/kernels/attention/cpu_tile.h"

namespace mezzo::kernels::cpu {
namespace {

/// Sizes of a tile. Two tiles and the rows beside them fit in a second-level cache of 1 MB.
constexpr std::int64_t kQueries = 128, kKeys = 256;

/// Rows of the largest tile of a call.
std::int64_t query_rows(const Attention& a) { return std::min(kQueries, a.q.shape[2]); }
std::int64_t key_rows(const Attention& a) { return std::min(kKeys, a.k.shape[2]); }

/// Buffers of a row: mask and dropout.
template <class T>
struct RowBuffers {
  alignas(64) T mask[kKeys], kept[kKeys];
  alignas(64) std::uint32_t words[kKeys + 8];
};

// --- forward

template <class T>
class ForwardBlock {
 public:
  ForwardBlock(const Attention& attention, const View& out, T* logsumexp, std::int64_t head,
               std::int64_t first)
      : tiles_(attention, head),
        out_(out, head),
        logsumexp_(logsumexp + head * tiles_.queries() + first),
        first_(first),
        rows_(std::min(kQueries, tiles_.queries() - first)),
        pieces_(total()) {}

  void run() {
    const std::int64_t size = tiles_.size(), value_size = tiles_.value_size();
    const TileRows<const T> q =
        tiles_.q.template load<T>(first_, rows_, pieces_.take(query_rows(tiles_.a) * size));
    T* const buffer = pieces_.take(key_rows(tiles_.a) * std::max(size, value_size));
    const TileRows<T> weights = pieces_.rows(query_rows(tiles_.a), key_rows(tiles_.a)),
                      sums = pieces_.rows(query_rows(tiles_.a), value_size);
    const std::int64_t end = tiles_.keys_before(first_ + rows_);
    for (std::int64_t key = 0; key < end; key += kKeys) {
      const std::int64_t cols = std::min(kKeys, end - key);
      const TileRows<T> tile{weights.data, cols};
      multiply<T>(rows_, cols, size, q, false, tiles_.k.template load<T>(key, cols, buffer), true, tile,
                  false);
      to_weights(tile, key, cols, sums);
      multiply<T>(rows_, value_size, cols, {tile.data, cols}, false,
                  tiles_.v.template load<T>(key, cols, buffer), false, sums, key > 0);
    }
    if (end == 0) zero_rows(sums, rows_, value_size);
    finish(sums);
  }

 private:
  [[nodiscard]] std::int64_t total() const {
    const auto room = Pieces<T>::room;
    const std::int64_t size = tiles_.size(), value_size = tiles_.value_size();
    const std::int64_t queries = query_rows(tiles_.a), keys = key_rows(tiles_.a);
    return room(queries * size) + room(keys * std::max(size, value_size)) + room(queries * keys) +
           room(queries * value_size);
  }

  void to_weights(TileRows<T> tile, std::int64_t key, std::int64_t cols, TileRows<T> sums) {
    const Attention& a = tiles_.a;
    for (std::int64_t r = 0; r < rows_; ++r) {
      T* const row = tile.data + r * tile.ld;
      const std::int64_t query = first_ + r, n = tiles_.length(query, key, cols);
      const T factor = run_isa<WeightsOfRow<T>>(row, n, cols, static_cast<T>(a.scale),
                                                tiles_.mask_row(query, key, n, buffers_.mask), &states_[r]);
      if (key > 0) run_isa<ScaleRow<T>>(sums.data + r * sums.ld, tiles_.value_size(), factor);
      if (a.dropout_p == 0) continue;
      tiles_.kept_row(query, key, n, buffers_.words, buffers_.kept);
      run_isa<MultiplyRow<T>>(row, static_cast<const T*>(buffers_.kept), n);
    }
  }

  void finish(TileRows<T> sums) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      run_isa<ScaleRow<T>>(sums.data + r * sums.ld, tiles_.value_size(), states_[r].inverse());
      logsumexp_[r] = states_[r].logsumexp();
    }
    out_.template store<T>(first_, rows_, {sums.data, sums.ld});
  }

  HeadTiles<T> tiles_;
  Head out_;
  T* logsumexp_;
  std::int64_t first_, rows_;
  Pieces<T> pieces_;
  OnlineSoftmax<T> states_[kQueries];
  RowBuffers<T> buffers_;
};

template <class T>
void forward(const Attention& attention, const View& out, T* logsumexp) {
  for_query_blocks(attention, out, kQueries, [&](std::int64_t head, std::int64_t first) {
    ForwardBlock<T>(attention, out, logsumexp, head, first).run();
  });
}

// --- backward

/// The tiles of the keys [begin, end) of a head.
template <class T>
class BackwardPart {
 public:
  /// `dq`: receives this part's share, or nullptr when it is the only part, which writes the view.
  BackwardPart(const Attention& attention, const GradientViews& gradients, const View& grad, const View& out,
               const T* logsumexp, std::int64_t head, std::int64_t begin, std::int64_t end, T* dq)
      : tiles_(attention, head),
        grad_(grad, head),
        out_(out, head),
        dq_(gradients.q, head),
        dk_(gradients.k, head),
        dv_(gradients.v, head),
        logsumexp_(logsumexp + head * tiles_.queries()),
        begin_(begin),
        end_(end),
        own_dq_(dq),
        pieces_(total()) {}

  void run() {
    const std::int64_t queries = tiles_.queries(), size = tiles_.size(), value_size = tiles_.value_size();
    q_ = pieces_.take(query_rows(tiles_.a) * size), g_ = pieces_.take(query_rows(tiles_.a) * value_size);
    k_ = pieces_.take(key_rows(tiles_.a) * size), v_ = pieces_.take(key_rows(tiles_.a) * value_size);
    weights_ = pieces_.take(query_rows(tiles_.a) * key_rows(tiles_.a));
    through_ = pieces_.take(query_rows(tiles_.a) * key_rows(tiles_.a));
    T* const dk = pieces_.take(key_rows(tiles_.a) * size);
    T* const dv = pieces_.take(key_rows(tiles_.a) * value_size);
    means_ = pieces_.take(queries);
    find_means();
    TileRows<T> dq{own_dq_, std::max<std::int64_t>(size, 1)};
    if (wants_dq() && own_dq_ == nullptr)
      dq = target(dq_, 0, direct(dq_) ? nullptr : pieces_.take(queries * size));
    if (wants_dq()) zero_rows(dq, queries, size);
    for (std::int64_t key = begin_; key < end_; key += kKeys) {
      const std::int64_t cols = std::min(kKeys, end_ - key);
      const TileRows<T> keys = target(dk_, key, dk), values = target(dv_, key, dv);
      run_keys(key, cols, dq, keys, values);
      finish(dk_, key, cols, keys);
      finish(dv_, key, cols, values);
    }
    if (own_dq_ == nullptr) finish(dq_, 0, queries, dq);
  }

 private:
  [[nodiscard]] bool wants_dq() const { return dq_.data != nullptr; }
  [[nodiscard]] static bool direct(const Head& head) { return head.template direct<T>(); }
  /// Where the gradient's rows from `first` on are added up: in place, or in `buffer`.
  [[nodiscard]] static TileRows<T> target(const Head& head, std::int64_t first, T* buffer) {
    if (head.data != nullptr && direct(head)) return head.template direct_rows<T>(first);
    return {buffer, std::max<std::int64_t>(head.cols, 1)};
  }
  static void finish(const Head& head, std::int64_t first, std::int64_t rows, TileRows<T> sums) {
    if (head.data != nullptr && !direct(head)) head.template store<T>(first, rows, {sums.data, sums.ld});
  }

  [[nodiscard]] std::int64_t total() const {
    const auto room = Pieces<T>::room;
    const std::int64_t size = tiles_.size(), value_size = tiles_.value_size();
    const std::int64_t queries = query_rows(tiles_.a), keys = key_rows(tiles_.a);
    return room(queries * size) + room(queries * value_size) +
           2 * (room(keys * size) + room(keys * value_size)) + 2 * room(queries * keys) +
           room(tiles_.queries()) +
           (wants_dq() && own_dq_ == nullptr && !direct(dq_) ? room(tiles_.queries() * size) : 0);
  }

  /// Of each query: grad . out, the mean of its weights' gradients under the weights.
  void find_means() {
    const std::int64_t value_size = tiles_.value_size();
    for (std::int64_t query = 0; query < tiles_.queries(); ++query) {
      means_[query] = run_isa<DotRow<T>>(grad_.template load<T>(query, 1, g_).data,
                                         out_.template load<T>(query, 1, v_).data, value_size);
    }
  }

  /// Adds up what the tile of keys [key, key + cols) gives.
  void run_keys(std::int64_t key, std::int64_t cols, TileRows<T> dq, TileRows<T> dk, TileRows<T> dv) {
    const std::int64_t queries = tiles_.queries(), size = tiles_.size(), value_size = tiles_.value_size();
    if (dk_.data != nullptr) zero_rows(dk, cols, size);
    if (dv_.data != nullptr) zero_rows(dv, cols, value_size);
    const TileRows<const T> k = tiles_.k.template load<T>(key, cols, k_),
                            v = tiles_.v.template load<T>(key, cols, v_);
    // Earlier queries take none of these keys.
    for (std::int64_t first = tiles_.a.causal ? key / kQueries * kQueries : 0; first < queries;
         first += kQueries) {
      const std::int64_t rows = std::min(kQueries, queries - first);
      const std::int64_t n = std::min(cols, tiles_.keys_before(first + rows) - key);
      const TileRows<const T> q = tiles_.q.template load<T>(first, rows, q_),
                              g = grad_.template load<T>(first, rows, g_);
      const TileRows<T> weights{weights_, n}, scores{through_, n};
      multiply<T>(rows, n, size, q, false, k, true, weights, false);
      multiply<T>(rows, n, value_size, g, false, v, true, scores, false);
      to_gradients(first, rows, key, n);
      const TileRows<const T> w{weights_, n}, ds{through_, n};
      if (dv_.data != nullptr) multiply<T>(n, value_size, rows, w, true, g, false, dv, true);
      if (dk_.data != nullptr) multiply<T>(n, size, rows, ds, true, q, false, dk, true);
      if (wants_dq()) multiply<T>(rows, size, n, ds, false, k, false, {dq.data + first * dq.ld, dq.ld}, true);
    }
  }

  void to_gradients(std::int64_t first, std::int64_t rows, std::int64_t key, std::int64_t cols) {
    const Attention& a = tiles_.a;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t query = first + r, n = tiles_.length(query, key, cols);
      T* const weights = weights_ + r * cols;
      T* const through = through_ + r * cols;
      const GradientRow<T> row{static_cast<T>(a.scale), tiles_.mask_row(query, key, n, buffers_.mask),
                               attention_shift(logsumexp_[query]), means_[query], buffers_.kept};
      if (a.dropout_p > 0) {
        tiles_.kept_row(query, key, n, buffers_.words, buffers_.kept);
        run_isa<GradientsOfRow<T, true>>(weights, through, n, cols, row);
      } else {
        run_isa<GradientsOfRow<T, false>>(weights, through, n, cols, row);
      }
    }
  }

  HeadTiles<T> tiles_;
  Head grad_, out_, dq_, dk_, dv_;
  const T* logsumexp_;
  std::int64_t begin_, end_;
  T* own_dq_;
  Pieces<T> pieces_;
  T *q_, *g_, *k_, *v_, *weights_, *through_, *means_;
  RowBuffers<T> buffers_;
};

template <class T>
void backward(const Attention& attention, const GradientViews& gradients, const View& grad, const View& out,
              const T* logsumexp) {
  const std::int64_t heads = out.shape[0] * out.shape[1];
  const std::int64_t queries = attention.q.shape[2], keys = attention.k.shape[2], size = attention.q.shape[3];
  if (heads * (queries * size + keys * (size + attention.v.shape[3])) == 0) return;
  for_key_parts<T>(
      attention, gradients.q, kKeys, size,
      [&](std::int64_t head, std::int64_t begin, std::int64_t end, T* share) {
        BackwardPart<T>(attention, gradients, grad, out, logsumexp, head, begin, end, share).run();
      });
}

}  // namespace

void attention(const Attention& attention, const View& out, void* logsumexp) {
  if (goes_by_panels(attention)) return attention_by_panels(attention, out, static_cast<float*>(logsumexp));
  dispatch_compute(out.dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_floating_point_v<T>) forward(attention, out, static_cast<T*>(logsumexp));
  });
}

void attention_backward(const Attention& attention, const View& dq, const View& dk, const View& dv,
                        const View& grad, const View& out, const void* logsumexp) {
  const GradientViews gradients{dq, dk, dv};
  if (goes_by_panels(attention)) {
    return attention_backward_by_panels(attention, gradients, grad, out,
                                        static_cast<const float*>(logsumexp));
  }
  dispatch_compute(attention.q.dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_floating_point_v<T>)
      backward(attention, gradients, grad, out, static_cast<const T*>(logsumexp));
  });
}

}  // namespace mezzo::kernels::cpu
