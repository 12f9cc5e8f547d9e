// Attention row by row: calls in f64, of a few queries, as of a decoder that keeps its keys and values, and
// small calls; all others go by panels (cpu_panels.h). Everything is computed in the compute type, 16-bit
// rows are widened a tile of keys at a time. The bits are the same on every instruction set.
//
// Forward: a task is some queries of one head and walks over tiles of its keys with an online softmax.
// Backward: a task is a head and walks over tiles of keys and, within, over all queries: so the gradients of
// keys and values are added up in the cache. Tasks depend on sizes only, so the bits do not depend on the
// number of threads.
#include "mezzo/kernels/attention/attention.h"

#include "mezzo/kernels/attention/cpu_heads.h"
#include "mezzo/kernels/attention/cpu_panels.h"

namespace mezzo::kernels::cpu {
namespace {

/// Queries of a forward task, and keys of a tile.
constexpr std::int64_t kQueries = 128, kKeys = 256;

// --- passes over a row, compiled for each instruction set

/// out[i] = a . rows[i]. Four rows at a time, each with sums in 16 places whatever the vectors are.
template <class T>
struct DotRows {
  static constexpr int kRows = 4, kPlaces = 16;

  MEZZO_ALWAYS_INLINE static void add(const T* a, const T* row, T* sums) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kPlaces; ++j) sums[j] += a[j] * row[j];
  }
  MEZZO_ALWAYS_INLINE static T fold(T* sums) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < 8; ++j) sums[j] += sums[j + 8];
    MEZZO_KEEP_LOOP
    for (int j = 0; j < 4; ++j) sums[j] += sums[j + 4];
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
  }
  template <int Rows>
  MEZZO_ALWAYS_INLINE static void dots(const T* a, std::int64_t cols, const T* rows, std::int64_t ld,
                                       T* out) {
    T sums[Rows][kPlaces] = {};
    std::int64_t p = 0;
    for (; p + kPlaces <= cols; p += kPlaces) {
      for (int r = 0; r < Rows; ++r) add(a + p, rows + r * ld + p, sums[r]);
    }
    for (int r = 0; r < Rows; ++r) {
      for (std::int64_t j = 0; j < cols - p; ++j) sums[r][j] += a[p + j] * rows[r * ld + p + j];
      out[r] = fold(sums[r]);
    }
  }
  static void run(const T* a, TileRows<const T> rows, std::int64_t count, std::int64_t cols, T* out) {
    std::int64_t i = 0;
    for (; i + kRows <= count; i += kRows) dots<kRows>(a, cols, rows.data + i * rows.ld, rows.ld, out + i);
    for (; i < count; ++i) dots<1>(a, cols, rows.data + i * rows.ld, rows.ld, out + i);
  }
};

/// sum += the rows, each times its factor, in order.
template <class T>
struct AddRows {
  static void run(const T* factors, TileRows<const T> rows, std::int64_t count, std::int64_t cols, T* sum) {
    const T* x = rows.data;
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4, x += 4 * rows.ld) {
      const T *const x1 = x + rows.ld, *const x2 = x1 + rows.ld, *const x3 = x2 + rows.ld;
      const T f0 = factors[i], f1 = factors[i + 1], f2 = factors[i + 2], f3 = factors[i + 3];
      MEZZO_INDEPENDENT_LOOP
      for (std::int64_t c = 0; c < cols; ++c)
        sum[c] = (((sum[c] + x[c] * f0) + x1[c] * f1) + x2[c] * f2) + x3[c] * f3;
    }
    for (; i < count; ++i, x += rows.ld) {
      MEZZO_INDEPENDENT_LOOP
      for (std::int64_t c = 0; c < cols; ++c) sum[c] += x[c] * factors[i];
    }
  }
};
/// The reverse: x times its factor is added to each of the sums.
template <class T>
struct AddToRows {
  static void run(const T* factors, const T* x, std::int64_t count, std::int64_t cols, T* sums) {
    for (std::int64_t i = 0; i < count; ++i, sums += cols) {
      const T factor = factors[i];
      MEZZO_INDEPENDENT_LOOP
      for (std::int64_t c = 0; c < cols; ++c) sums[c] += x[c] * factor;
    }
  }
};

template <class T>
struct ScaleRow {
  static void run(T* row, std::int64_t n, T factor) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) row[i] *= factor;
  }
};
template <class T>
struct MultiplyRow {
  static void run(T* row, const T* factors, std::int64_t n) {
    row_map<T, 2>({row, factors}, row, n, scalar::MulFn{});
  }
};

/// Products to scores.
template <class T>
MEZZO_ALWAYS_INLINE void to_scores(T* row, std::int64_t n, T scale, MaskRow<T> mask) {
  if (mask.values == nullptr) {
    row_map<T, 1>({row}, row, n, [=](T x) { return x * scale; });
  } else if (mask.select) {
    constexpr T kNothing = -std::numeric_limits<T>::infinity();
    row_map<T, 2>({row, mask.values}, row, n, [=](T x, T m) { return m == T(0) ? kNothing : x * scale; });
  } else {
    row_map<T, 2>({row, mask.values}, row, n, [=](T x, T m) { return x * scale + m; });
  }
}

/// Products to weights. Returns the factor for what was added up with the row's earlier weights.
template <class T>
struct WeightsOfRow {
  static T run(T* row, std::int64_t n, T scale, MaskRow<T> mask, OnlineSoftmax<T>* state) {
    to_scores(row, n, scale, mask);
    const T factor = state->advance(row_max(row, n));
    const T shift = state->shift();
    state->sum +=
        static_cast<T>(row_pass<T, 1>({row}, row, n, [=](T x) { return math::exp_nonpositive(x - shift); }));
    return factor;
  }
};

/// Products to weights, and `through`, the gradients of these, to the gradients of the products. `shift`:
/// see attention_shift; `mean`: of the weights' gradients, grad . out.
template <class T>
struct GradientsOfRow {
  static void run(T* products, T* through, std::int64_t n, T scale, MaskRow<T> mask, T shift, T mean) {
    to_scores(products, n, scale, mask);
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      const T weight = math::exp_nonpositive(products[i] - shift);
      products[i] = weight;
      through[i] = weight * (through[i] - mean) * scale;
    }
  }
};

// --- tasks

/// Memory for a row of a tile: mask and dropout.
template <class T>
struct RowBuffers {
  alignas(64) T mask[kKeys], kept[kKeys];
  alignas(64) std::uint32_t words[kKeys + 8];
};

/// Results of the queries [first, first + kQueries) of a head.
template <class T>
void forward_queries(const Attention& a, const View& out, T* logsumexp, std::int64_t index,
                     std::int64_t first) {
  const HeadTiles<T> head(a, index);
  const std::int64_t size = head.size(), value_size = head.value_size(), queries = head.queries();
  const std::int64_t rows = std::min(kQueries, queries - first), end = head.keys_before(first + rows);
  T *own_q, *own_k, *own_v, *weights, *sums;
  const std::int64_t most = std::min(kKeys, head.keys());
  take_pieces<T>({{&own_q, rows * size},
                  {&own_k, most * size},
                  {&own_v, most * value_size},
                  {&weights, most},
                  {&sums, rows * value_size}});
  RowBuffers<T> buffers;
  OnlineSoftmax<T> states[kQueries];
  const TileRows<const T> q = head.q.template load<T>(first, rows, size, own_q);
  std::fill_n(sums, rows * value_size, T(0));
  for (std::int64_t key = 0; key < end; key += kKeys) {
    const std::int64_t cols = std::min(kKeys, end - key);
    const TileRows<const T> k = head.k.template load<T>(key, cols, size, own_k),
                            v = head.v.template load<T>(key, cols, value_size, own_v);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t query = first + r, n = head.length(query, key, cols);
      T* const sum = sums + r * value_size;
      run_isa<DotRows<T>>(q.data + r * q.ld, k, n, size, weights);
      const T factor = run_isa<WeightsOfRow<T>>(weights, n, static_cast<T>(a.scale),
                                                head.mask_row(query, key, n, buffers.mask), &states[r]);
      if (a.dropout_p > 0) {
        head.kept_row(query, key, n, buffers.words, buffers.kept);
        run_isa<MultiplyRow<T>>(weights, static_cast<const T*>(buffers.kept), n);
      }
      run_isa<ScaleRow<T>>(sum, value_size, factor);
      run_isa<AddRows<T>>(static_cast<const T*>(weights), v, n, value_size, sum);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    run_isa<ScaleRow<T>>(sums + r * value_size, value_size, states[r].inverse());
    logsumexp[index * queries + first + r] = states[r].logsumexp();
  }
  Head(out, index).template store<T>(first, rows, {sums, value_size});
}

/// The gradients of a head.
template <class T>
class BackwardRows : BackwardHeads {
 public:
  BackwardRows(const Attention& attention, const GradientViews& gradients, const View& grad, const View& out,
               const T* logsumexp, std::int64_t index)
      : BackwardHeads(gradients, grad, out, index),
        head_(attention, index),
        logsumexp_(logsumexp + index * head_.queries()) {
    const std::int64_t size = head_.size(), value_size = head_.value_size(),
                       keys = std::min(kKeys, head_.keys());
    const std::int64_t of_q = dq_.data != nullptr ? head_.queries() * size : 0;
    take_pieces<T>({{&q_, size},
                    {&g_, value_size},
                    {&o_, value_size},
                    {&k_, keys * size},
                    {&v_, keys * value_size},
                    {&products_, keys},
                    {&through_, keys},
                    {&sums_of_k_, keys * size},
                    {&sums_of_v_, keys * value_size},
                    {&sums_of_q_, of_q}});
    std::fill_n(sums_of_q_, of_q, T(0));
  }

  void run() {
    const std::int64_t size = head_.size(), value_size = head_.value_size(), keys = head_.keys();
    for (std::int64_t key = 0; key < keys; key += kKeys) {
      const std::int64_t cols = std::min(kKeys, keys - key);
      const TileRows<const T> k = head_.k.template load<T>(key, cols, size, k_),
                              v = head_.v.template load<T>(key, cols, value_size, v_);
      std::fill_n(sums_of_k_, cols * size, T(0));
      std::fill_n(sums_of_v_, cols * value_size, T(0));
      // Earlier queries take none of these keys.
      for (std::int64_t query = head_.a.causal ? key : 0; query < head_.queries(); ++query)
        add_query(query, key, head_.length(query, key, cols), k, v);
      if (dk_.data != nullptr) dk_.template store<T>(key, cols, {sums_of_k_, size});
      if (dv_.data != nullptr) dv_.template store<T>(key, cols, {sums_of_v_, value_size});
    }
    if (dq_.data != nullptr) dq_.template store<T>(0, head_.queries(), {sums_of_q_, size});
  }

 private:
  /// Adds up what a query gives with n keys from `key` on.
  void add_query(std::int64_t query, std::int64_t key, std::int64_t n, TileRows<const T> k,
                 TileRows<const T> v) {
    const std::int64_t size = head_.size(), value_size = head_.value_size();
    const T scale = static_cast<T>(head_.a.scale);
    const T* const q = head_.q.template load<T>(query, 1, size, q_).data;
    const T* const g = grad_.template load<T>(query, 1, value_size, g_).data;
    T mean;
    run_isa<DotRows<T>>(g, out_.template load<T>(query, 1, value_size, o_), std::int64_t{1}, value_size,
                        &mean);
    run_isa<DotRows<T>>(q, k, n, size, products_);
    run_isa<DotRows<T>>(g, v, n, value_size, through_);
    const bool drops = head_.a.dropout_p > 0;
    const T* const kept = buffers_.kept;
    if (drops) head_.kept_row(query, key, n, buffers_.words, buffers_.kept);
    if (drops) run_isa<MultiplyRow<T>>(through_, kept, n);
    run_isa<GradientsOfRow<T>>(products_, through_, n, scale, head_.mask_row(query, key, n, buffers_.mask),
                               attention_shift(logsumexp_[query]), mean);
    if (drops) run_isa<MultiplyRow<T>>(products_, kept, n);
    const T *const weights = products_, *const gradients = through_;
    if (dv_.data != nullptr) run_isa<AddToRows<T>>(weights, g, n, value_size, sums_of_v_);
    if (dk_.data != nullptr) run_isa<AddToRows<T>>(gradients, q, n, size, sums_of_k_);
    if (dq_.data != nullptr) run_isa<AddRows<T>>(gradients, k, n, size, sums_of_q_ + query * size);
  }

  HeadTiles<T> head_;
  const T* logsumexp_;
  T *q_, *g_, *o_, *k_, *v_, *products_, *through_, *sums_of_k_, *sums_of_v_, *sums_of_q_;
  RowBuffers<T> buffers_;
};

}  // namespace

void attention(const Attention& attention, const View& out, void* logsumexp) {
  if (goes_by_panels(attention)) return attention_by_panels(attention, out, static_cast<float*>(logsumexp));
  dispatch_real(compute_dtype(out.dtype), [&]<class T>(TypeTag<T>) {
    for_query_blocks(attention, out, kQueries, [&](std::int64_t head, std::int64_t first) {
      forward_queries(attention, out, static_cast<T*>(logsumexp), head, first);
    });
  });
}

void attention_backward(const Attention& attention, const View& dq, const View& dk, const View& dv,
                        const View& grad, const View& out, const void* logsumexp) {
  const GradientViews gradients{dq, dk, dv};
  if (goes_by_panels(attention)) {
    return attention_backward_by_panels(attention, gradients, grad, out,
                                        static_cast<const float*>(logsumexp));
  }
  // Empty arrays may have very long rows.
  if (layout::numel(attention.q.shape) + layout::numel(attention.k.shape) +
          layout::numel(attention.v.shape) ==
      0)
    return;
  dispatch_real(compute_dtype(attention.q.dtype), [&]<class T>(TypeTag<T>) {
    for_heads(attention, [&](std::int64_t head) {
      BackwardRows<T>(attention, gradients, grad, out, static_cast<const T*>(logsumexp), head).run();
    });
  });
}

}  // namespace mezzo::kernels::cpu
