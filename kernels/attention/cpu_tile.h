// What attention's tiles are made of: rows of a head as the product engines read them, and the passes over
// rows of scores between the products. Apart from cpu.cpp, which has the order in which tiles are
// taken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "mezzo/kernels/attention/attention.h"
#include "mezzo/kernels/attention/attention_math.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/row_pass.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/gemm/cpu_tile.h"
#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::cpu {

// --- rows of a head

/// Rows of contiguous numbers, `ld` apart.
template <class T>
struct TileRows {
  T* data;
  std::int64_t ld;
};

/// One head of a view [B, H, rows, cols].
struct Head {
  Head(const View& view, std::int64_t head) : data(static_cast<std::byte*>(view.data)), dtype(view.dtype) {
    if (data == nullptr) return;
    cols = view.shape[3], row_stride = view.strides[2], many_rows = view.shape[2] > 1;
    const std::int64_t heads = view.shape[1];
    data += (head / heads * view.strides[0] + head % heads * view.strides[1]) * size_of(dtype);
  }
  std::byte* data;  ///< nullptr: not there
  DType dtype;
  std::int64_t cols = 0, row_stride = 0;
  bool many_rows = false;

  [[nodiscard]] std::byte* row(std::int64_t r) const { return data + r * row_stride * size_of(dtype); }
  /// Whether an engine of type T takes the rows as they are.
  template <class T>
  [[nodiscard]] bool direct() const {
    return dtype == dtype_of<T> && (!many_rows || row_stride >= cols);
  }
  template <class T>
  [[nodiscard]] TileRows<T> direct_rows(std::int64_t first) const {
    return {reinterpret_cast<T*>(row(first)), many_rows ? row_stride : std::max<std::int64_t>(cols, 1)};
  }
  /// Rows [first, first + count) in T: in place, or widened into `buffer`.
  template <class T>
  [[nodiscard]] TileRows<const T> load(std::int64_t first, std::int64_t count, T* buffer) const {
    if (direct<T>()) {
      const TileRows<T> rows = direct_rows<T>(first);
      return {rows.data, rows.ld};
    }
    for (std::int64_t r = 0; r < count; ++r)
      convert(row(first + r), dtype, buffer + r * cols, dtype_of<T>, cols);
    return {buffer, cols};
  }
  template <class T>
  void store(std::int64_t first, std::int64_t count, TileRows<const T> rows) const {
    for (std::int64_t r = 0; r < count; ++r)
      convert(rows.data + r * rows.ld, dtype_of<T>, row(first + r), dtype, cols);
  }
};

template <class T>
void zero_rows(TileRows<T> rows, std::int64_t count, std::int64_t cols) {
  for (std::int64_t r = 0; r < count; ++r) std::fill_n(rows.data + r * rows.ld, cols, T(0));
}

/// sum + x * factor
template <class T>
struct AddScaledFn {
  T factor;
  MEZZO_ALWAYS_INLINE T operator()(T sum, T x) const { return sum + x * factor; }
};
/// A product whose A is one row, as for a single new query: it reads B once, as fast as memory gives it, for
/// which the engines are not made.
template <class T>
struct RowProduct {
  static void run(const GemmTile<T>* t) {
    if (!t->accumulate) {
      for (std::int64_t j = 0; j < t->n; ++j) t->c[j] = 0;
    }
    if (t->b_transposed) {
      for (std::int64_t j = 0; j < t->n; ++j)
        t->c[j] += static_cast<T>(row_pass<T, 2>({t->a, t->b + j * t->ldb}, nullptr, t->k, scalar::MulFn{}));
    } else {
      for (std::int64_t p = 0; p < t->k; ++p)
        row_map<T, 2>({t->c, t->b + p * t->ldb}, t->c, t->n, AddScaledFn<T>{t->a[p]});
    }
  }
};

/// C (+)= op(A) op(B) for any sizes: a sum over nothing is 0.
template <class T>
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, TileRows<const T> a, bool a_transposed,
              TileRows<const T> b, bool b_transposed, TileRows<T> c, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) zero_rows(c, m, n);
    return;
  }
  const GemmTile<T> tile{m,      n,    k,         a.data, a.ld, a_transposed, b.data, b.ld, b_transposed,
                         c.data, c.ld, accumulate};
  if (m == 1 && !a_transposed)
    run_isa<RowProduct<T>>(&tile);
  else
    gemm_tile<T>(tile);
}

// --- what stands between q k^T and the scores

/// The part of a row of the mask that belongs to a tile, in T.
template <class T>
struct MaskRow {
  const T* values = nullptr;  ///< nullptr: none
  bool select = false;        ///< values are 0 or 1 and say which keys take part; else they are added
};

template <class T>
struct MaskedScoreFn {
  T scale;
  MEZZO_ALWAYS_INLINE T operator()(T product, T mask) const { return product * scale + mask; }
};
template <class T>
struct SelectedScoreFn {
  T scale;
  MEZZO_ALWAYS_INLINE T operator()(T product, T mask) const {
    return mask == T(0) ? -std::numeric_limits<T>::infinity() : product * scale;
  }
};
template <class T>
struct ScoreFn {
  T scale;
  MEZZO_ALWAYS_INLINE T operator()(T product) const { return product * scale; }
};
/// exp(x scale - shift) for a result of at most 1.
template <class T>
struct WeightFn {
  T scale, shift;
  MEZZO_ALWAYS_INLINE T operator()(T x) const { return math::exp_nonpositive(x * scale - shift); }
};

/// row = scores where they are not just row * scale; returns the factor that is left to apply. A factor that
/// is not positive is applied here, because the largest score is then not that of the largest product.
template <class T>
MEZZO_ALWAYS_INLINE T to_scores(T* row, std::int64_t n, T scale, MaskRow<T> mask) {
  if (mask.values != nullptr) {
    if (mask.select)
      row_map<T, 2>({row, mask.values}, row, n, SelectedScoreFn<T>{scale});
    else
      row_map<T, 2>({row, mask.values}, row, n, MaskedScoreFn<T>{scale});
    return 1;
  }
  if (scale > T(0)) return scale;
  row_map<T, 1>({row}, row, n, ScoreFn<T>{scale});
  return 1;
}

// --- passes over a row, compiled for each instruction set

/// The n products of a row become weights; those up to `cols` become 0. Returns the factor for what was added
/// up with the row's earlier weights.
template <class T>
struct WeightsOfRow {
  static T run(T* row, std::int64_t n, std::int64_t cols, T scale, MaskRow<T> mask, OnlineSoftmax<T>* state) {
    const T left = to_scores(row, n, scale, mask);
    const T factor = state->advance(row_max(row, n) * left);
    state->sum += static_cast<T>(row_pass<T, 1>({row}, row, n, WeightFn<T>{left, state->shift()}));
    for (std::int64_t i = n; i < cols; ++i) row[i] = 0;
    return factor;
  }
};

/// row *= factor
template <class T>
struct ScaleRow {
  static void run(T* row, std::int64_t n, T factor) { row_map<T, 1>({row}, row, n, ScoreFn<T>{factor}); }
};
template <class T>
struct MultiplyRow {
  static void run(T* row, const T* factors, std::int64_t n) {
    row_map<T, 2>({row, factors}, row, n, scalar::MulFn{});
  }
};
template <class T>
struct DotRow {
  static T run(const T* a, const T* b, std::int64_t n) {
    return static_cast<T>(row_pass<T, 2>({a, b}, nullptr, n, scalar::MulFn{}));
  }
};

/// What backward's pass over a row needs beside it.
template <class T>
struct GradientRow {
  T scale;
  MaskRow<T> mask;
  T shift;        ///< logsumexp, see attention_shift
  T mean;         ///< of the weights' gradients: grad . out
  const T* kept;  ///< factors of dropout, if there is any
};
/// products -> weights after dropout; through (grad v^T) -> gradients of the products. Those in [n, cols)
/// become 0.
template <class T, bool kDropout>
struct GradientsOfRow {
  static void run(T* products, T* through, std::int64_t n, std::int64_t cols, GradientRow<T> r) {
    const T left = to_scores(products, n, r.scale, r.mask);
    const WeightFn<T> weight_of{left, r.shift};
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      const T weight = weight_of(products[i]), kept = kDropout ? r.kept[i] : T(1);
      products[i] = weight * kept;
      through[i] = weight * (through[i] * kept - r.mean) * r.scale;
    }
    for (std::int64_t i = n; i < cols; ++i) products[i] = through[i] = 0;
  }
};

/// out[i] = factor where dropout keeps weight first + i, else 0. `words` has room for n + 8.
template <class T>
struct KeptOfRow {
  static void run(T* out, std::uint32_t* words, std::int64_t n, std::int64_t first, AttentionWords source,
                  std::uint64_t threshold, T factor) {
    const std::int64_t begin = first / 4, blocks = (first + n + 3) / 4 - begin;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const PhiloxBlock four = source(begin + b);
      for (int i = 0; i < 4; ++i) words[4 * b + i] = four[i];
    }
    const std::uint32_t* const own = words + (first - 4 * begin);
    for (std::int64_t i = 0; i < n; ++i) out[i] = own[i] < threshold ? factor : T(0);
  }
};

}  // namespace mezzo::kernels::cpu
