// Rows of a table by index, and sums of rows by index: embedding and its gradient. The arithmetic is in
// functors for kernels/generate.h, so that every device computes the same bits. An index out of range is not
// followed: it reads zeros and adds nothing (the op reports it).
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/kernels/cast_math.h"
#include "mezzo/kernels/generate.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

namespace detail {

/// A matrix of stored elements.
template <class S>
struct TableRows {
  const S* data;
  std::int64_t rows, row_stride, column_stride;
};

/// Elements of table[index[r], c] for r, c in row-major order.
template <class S>
struct GatherRows {
  TableRows<S> table;
  const std::int64_t* index;
  std::int64_t width, total;  ///< of a row and of the result
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, T* values) const {
    std::int64_t row = 4 * block / width, column = 4 * block - row * width;
    for (int i = 0; i < 4 && 4 * block + i < total; ++i) {
      const std::int64_t at = index[row];
      const bool inside = at >= 0 && at < table.rows;
      values[i] = inside ? cast<T>(table.data[at * table.row_stride + column * table.column_stride]) : T(0);
      if (++column == width) column = 0, ++row;
    }
  }
};

/// Lists of the positions in `index` that hold the same value: head[v] is the first position with value v,
/// next[n] the one that follows n; -1 ends a list. `skip` and values out of range are in no list.
struct IndexLists {
  std::int64_t* head;
  std::int64_t* next;
};

/// next[n] for n in order, and head[v] from the thread that finds the first v: as many comparisons as pairs
/// of positions, but no atomics and one order. head is filled with -1 before.
struct FindLists {
  const std::int64_t* index;
  std::int64_t count, values, skip;
  std::int64_t* head;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, std::int64_t* next) const {
    for (int i = 0; i < 4 && 4 * block + i < count; ++i) next[i] = after(4 * block + i);
  }

 private:
  MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t after(std::int64_t n) const {
    const std::int64_t value = index[n];
    if (value == skip || value < 0 || value >= values) return -1;
    std::int64_t before = n - 1;
    while (before >= 0 && index[before] != value) --before;
    if (before < 0) head[value] = n;
    std::int64_t found = n + 1;
    while (found < count && index[found] != value) ++found;
    return found < count ? found : -1;
  }
};

/// Elements of the sums over each list of the rows of a contiguous array, accumulated in f64 in order.
template <class S>
struct SumRows {
  const S* data;
  const std::int64_t* head;
  const std::int64_t* next;
  std::int64_t width, total;  ///< of a row and of the result
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, double* values) const {
    for (std::int64_t i = 0; i < 4 && 4 * block + i < total;) {
      const std::int64_t row = (4 * block + i) / width, column = 4 * block + i - row * width;
      const std::int64_t left = width - column, run = left < 4 - i ? left : 4 - i;
      for (std::int64_t k = 0; k < run; ++k) values[i + k] = 0;
      for (std::int64_t n = head[row]; n >= 0; n = next[n]) {
        for (std::int64_t k = 0; k < run; ++k) values[i + k] += cast<double>(data[n * width + column + k]);
      }
      i += run;
    }
  }
};

}  // namespace detail

/// out[r, c] = table[index[r], c]. out: contiguous, of the table's dtype; table: [values, width]; index:
/// contiguous.
inline void gather_rows(Device device, const View& out, const View& table, const std::int64_t* index) {
  const std::int64_t total = layout::numel(out.shape);
  if (total == 0) return;
  dispatch(table.dtype, [&]<class S>(TypeTag<S>) {
    const detail::TableRows<Stored<S>> rows{static_cast<const Stored<S>*>(table.data), table.shape[0],
                                            table.strides[0], table.strides[1]};
    dispatch_compute(table.dtype, [&]<class T>(TypeTag<T>) {
      generate<T>(device, detail::GatherRows<Stored<S>>{rows, index, table.shape[1], total}, out);
    });
  });
}

/// Fills `next`, [count], and `head`, [values], which holds -1 before.
inline void find_index_lists(Device device, const std::int64_t* index, const View& next, const View& head,
                             std::int64_t skip) {
  const std::int64_t count = next.shape[0], values = head.shape[0];
  auto* const first = static_cast<std::int64_t*>(head.data);
  if (!device.is_cpu())
    return generate<std::int64_t>(device, detail::FindLists{index, count, values, skip, first}, next);
  auto* const following = static_cast<std::int64_t*>(next.data);
  for (std::int64_t n = count; n-- > 0;) {
    const std::int64_t value = index[n];
    following[n] = -1;
    if (value == skip || value < 0 || value >= values) continue;
    following[n] = first[value];
    first[value] = n;
  }
}

/// out[v, c] = sum of rows[n, c] over the list of v. out: contiguous [values, width]; rows: contiguous
/// [count, width], floating.
inline void sum_rows(Device device, const View& out, const View& rows, const View& next, const View& head) {
  const std::int64_t total = layout::numel(out.shape);
  if (total == 0) return;
  dispatch(rows.dtype, [&]<class S>(TypeTag<S>) {
    generate<double>(
        device,
        detail::SumRows<Stored<S>>{static_cast<const Stored<S>*>(rows.data),
                                   static_cast<const std::int64_t*>(head.data),
                                   static_cast<const std::int64_t*>(next.data), out.shape[1], total},
        out);
  });
}

}  // namespace mezzo::kernels
