// What attention by rows and by panels share: rows of a head, widened where that is needed, what stands
// between q k^T and the scores, and the tasks of a call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "mezzo/kernels/attention/attention.h"
#include "mezzo/kernels/attention/attention_math.h"
#include "mezzo/kernels/attention/cpu_panel_loops.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/row_pass.h"
#include "mezzo/kernels/cpu/scratch.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::cpu {

// --- rows of a head

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
  /// Whether loops over T take the rows as they are.
  template <class T>
  [[nodiscard]] bool direct() const {
    return dtype == dtype_of<T> && (!many_rows || row_stride >= cols);
  }
  template <class T>
  [[nodiscard]] TileRows<T> direct_rows(std::int64_t first) const {
    return {reinterpret_cast<T*>(row(first)), many_rows ? row_stride : std::max<std::int64_t>(cols, 1)};
  }
  /// Rows [first, first + count) in T with `ld` numbers each, zeros behind the row's own: in place, or
  /// widened into `buffer`.
  template <class T>
  [[nodiscard]] TileRows<const T> load(std::int64_t first, std::int64_t count, std::int64_t ld,
                                       T* buffer) const {
    if (direct<T>() && cols == ld) {
      const TileRows<T> rows = direct_rows<T>(first);
      return {rows.data, rows.ld};
    }
    const bool dense = cols == ld && row_stride == cols;
    if (dense) convert(row(first), dtype, buffer, dtype_of<T>, count * cols);
    for (std::int64_t r = 0; !dense && r < count; ++r) {
      convert(row(first + r), dtype, buffer + r * ld, dtype_of<T>, cols);
      std::fill_n(buffer + r * ld + cols, ld - cols, T(0));
    }
    return {buffer, ld};
  }
  /// Whether rows of bf16 can be taken in pairs of neighbours, and these rows, with two numbers in the place
  /// of one.
  [[nodiscard]] bool has_pairs() const {
    return dtype == DType::bf16 && cols % 2 == 0 && row_stride % 2 == 0;
  }
  [[nodiscard]] TileRows<const float> pairs(std::int64_t first) const {
    return {reinterpret_cast<const float*>(row(first)), row_stride / 2};
  }
  template <class T>
  void store(std::int64_t first, std::int64_t count, TileRows<const T> rows) const {
    for (std::int64_t r = 0; r < count; ++r)
      convert(rows.data + r * rows.ld, dtype_of<T>, row(first + r), dtype, cols);
  }
};

/// Gradients to write; views without data are not wanted.
struct GradientViews {
  const View &q, &k, &v;
};
/// A head's gradients, the gradient of its result, and the result.
struct BackwardHeads {
  BackwardHeads(const GradientViews& gradients, const View& grad, const View& out, std::int64_t head)
      : grad_(grad, head),
        out_(out, head),
        dq_(gradients.q, head),
        dk_(gradients.k, head),
        dv_(gradients.v, head) {}
  Head grad_, out_, dq_, dk_, dv_;
};

template <class T>
void zero_rows(TileRows<T> rows, std::int64_t count, std::int64_t cols) {
  for (std::int64_t r = 0; r < count; ++r) std::fill_n(rows.data + r * rows.ld, cols, T(0));
}

// --- what stands between q k^T and the scores

/// The part of a row of the mask that belongs to a tile, in T.
template <class T>
struct MaskRow {
  const T* values = nullptr;  ///< nullptr: none
  bool select = false;        ///< values are 0 or 1 and say which keys take part; else they are added
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

// --- the tasks of a call

/// Below this many multiplications tasks are joined: starting threads costs as much.
inline constexpr double kMinTask = 5e5;

/// Tasks of a chunk; each is `weights` weights of vectors of `size` elements in all its products. A weight
/// itself costs about as much as 32 multiplications.
inline std::int64_t grain_of(std::int64_t weights, std::int64_t size) {
  const double task = static_cast<double>(weights) * static_cast<double>(size + 32);
  return task >= kMinTask ? 1 : static_cast<std::int64_t>(kMinTask / std::max(task, 1.0));
}

/// A piece of a thread's memory, and the pointer that is to point to it.
template <class T>
struct Piece {
  T** target;
  std::int64_t count;
};
/// Gives out pieces, all of them aligned. They are good until the thread's next call.
template <class T>
void take_pieces(std::initializer_list<Piece<T>> pieces) {
  static constinit mezzo::detail::PerThread<Scratch> scratch;
  const auto room = [](const Piece<T>& piece) { return (piece.count + 15) / 16 * 16; };
  std::int64_t total = 0;
  for (const Piece<T>& piece : pieces) total += room(piece);
  T* next = scratch.get().template get<T>(total);
  for (const Piece<T>& piece : pieces) {
    *piece.target = next;
    next += room(piece);
  }
}

/// One head of a call: what forward and backward tiles have in common.
template <class T>
struct HeadTiles {
  HeadTiles(const Attention& attention, std::int64_t head)
      : a(attention),
        index(head),
        q(a.q, head),
        k(a.k, head / a.readers(a.k)),
        v(a.v, head / a.readers(a.v)),
        mask(a.mask, head) {}

  const Attention& a;
  std::int64_t index;
  Head q, k, v, mask;

  [[nodiscard]] std::int64_t queries() const { return a.q.shape[2]; }
  [[nodiscard]] std::int64_t keys() const { return a.k.shape[2]; }
  [[nodiscard]] std::int64_t size() const { return a.q.shape[3]; }
  [[nodiscard]] std::int64_t value_size() const { return a.v.shape[3]; }

  /// Keys that take part in some of the queries below `end`.
  [[nodiscard]] std::int64_t keys_before(std::int64_t end) const {
    return a.causal ? std::min(keys(), end) : keys();
  }
  /// How many of the keys from `key` on, `cols` at most, take part in a query.
  [[nodiscard]] std::int64_t length(std::int64_t query, std::int64_t key, std::int64_t cols) const {
    return a.causal ? std::clamp<std::int64_t>(query + 1 - key, 0, cols) : cols;
  }
  [[nodiscard]] MaskRow<T> mask_row(std::int64_t query, std::int64_t key, std::int64_t n, T* buffer) const {
    if (mask.data == nullptr) return {};
    const std::int64_t stride = a.mask.strides[3];
    const std::byte* const from = mask.row(query) + key * stride * size_of(mask.dtype);
    if (mask.dtype == dtype_of<T> && stride == 1) return {reinterpret_cast<const T*>(from), false};
    gather(from, mask.dtype, stride, buffer, dtype_of<T>, n);
    return {buffer, mask.dtype == DType::boolean};
  }
  /// Factors of dropout for a row of weights.
  void kept_row(std::int64_t query, std::int64_t key, std::int64_t n, std::uint32_t* words,
                T* factors) const {
    const std::int64_t first = (index * queries() + query) * keys() + key;
    run_isa<KeptOfRow<T>>(factors, words, n, first, AttentionWords(a.seed), keep_threshold(a.dropout_p),
                          static_cast<T>(keep_factor(a.dropout_p)));
  }
};

/// Forward's tasks: run(head, first query) for blocks of `block` queries of every head.
template <class Run>
void for_query_blocks(const Attention& a, const View& out, std::int64_t block, const Run& run) {
  const std::int64_t queries = out.shape[2], blocks = ceil_div(queries, block);
  const std::int64_t grain = grain_of(std::min(block, queries) * a.k.shape[2], a.q.shape[3] + out.shape[3]);
  parallel_for(out.shape[0] * out.shape[1] * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) run(task / blocks, task % blocks * block);
  });
}

/// Backward's tasks: run(head).
template <class Run>
void for_heads(const Attention& a, const Run& run) {
  const std::int64_t grain = grain_of(a.q.shape[2] * a.k.shape[2], 3 * a.q.shape[3] + 2 * a.v.shape[3]);
  parallel_for(a.q.shape[0] * a.q.shape[1], grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) run(head);
  });
}

}  // namespace mezzo::kernels::cpu
