// Rows of a table by index, and sums of rows by index: embedding and its gradient. The arithmetic is in
// functors for kernels/generate.h, of which the CPU takes whole rows, so that every device computes the same
// bits. An index out of range is not followed: it reads zeros and adds nothing (the op reports it).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mezzo/kernels/cast_math.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/generate.h"
#include "mezzo/kernels/indexing.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

namespace detail {

/// A block of four elements of rows `f.width` long, as parts of one or more rows.
template <class F, class T>
MEZZO_HD MEZZO_ALWAYS_INLINE void for_parts(const F& f, std::int64_t block, T* values) {
  for (std::int64_t i = 0; i < 4 && 4 * block + i < f.total;) {
    const std::int64_t row = (4 * block + i) / f.width, column = 4 * block + i - row * f.width;
    const std::int64_t left = f.width - column, count = left < 4 - i ? left : 4 - i;
    f.part(row, column, count, values + i);
    i += count;
  }
}

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
  /// Columns of one row.
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE void part(std::int64_t row, std::int64_t column, std::int64_t count,
                                         T* values) const {
    const std::int64_t at = index[row];
    const bool inside = at >= 0 && at < table.rows;
    const S* const from = table.data + (inside ? at * table.row_stride + column * table.column_stride : 0);
    if (!inside) {
      for (std::int64_t k = 0; k < count; ++k) values[k] = T{};
    } else if (table.column_stride == 1) {
      for (std::int64_t k = 0; k < count; ++k) values[k] = cast<T>(from[k]);
    } else {
      for (std::int64_t k = 0; k < count; ++k) values[k] = cast<T>(from[k * table.column_stride]);
    }
  }
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, T* values) const {
    for_parts(*this, block, values);
  }
};

/// Elements of the sums over the rows of a contiguous array that belong together, accumulated in f64 in
/// order.
template <class S>
struct SumRows {
  const S* data;
  IndexRuns runs;
  std::int64_t width, total;  ///< of a row and of the result
  /// Columns of one row.
  MEZZO_HD MEZZO_ALWAYS_INLINE void part(std::int64_t row, std::int64_t column, std::int64_t count,
                                         double* values) const {
    for (std::int64_t k = 0; k < count; ++k) values[k] = 0;
    const std::int64_t last = runs.last[row];
    for (std::int64_t n = runs.first[row]; n < last; ++n) {
      const S* const from = data + runs.order[n] * width + column;
      for (std::int64_t k = 0; k < count; ++k) values[k] += cast<double>(from[k]);
    }
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, double* values) const {
    for_parts(*this, block, values);
  }
};

/// Rows per chunk of a thread.
inline std::int64_t row_grain(std::int64_t width) { return std::max<std::int64_t>(32768 / width, 1); }

}  // namespace detail

/// out[r, c] = table[index[r], c]. out: contiguous, of the table's dtype; table: [values, width]; index:
/// contiguous.
inline void gather_rows(Device device, const View& out, const View& table, const std::int64_t* index) {
  const std::int64_t total = layout::numel(out.shape);
  if (total == 0) return;
  dispatch(table.dtype, [&]<class S>(TypeTag<S>) {
    const detail::TableRows<Stored<S>> rows{static_cast<const Stored<S>*>(table.data), table.shape[0],
                                            table.strides[0], table.strides[1]};
    const std::int64_t width = table.shape[1];
    const detail::GatherRows<Stored<S>> gather{rows, index, width, total};
    if (device.is_cpu()) {  // whole rows, as they are stored
      auto* const to = static_cast<Stored<S>*>(out.data);
      return cpu::parallel_for(total / width, detail::row_grain(width),
                               [&](std::int64_t begin, std::int64_t end) {
                                 for (std::int64_t r = begin; r < end; ++r)
                                   gather.part(r, 0, width, to + r * width);
                               });
    }
    dispatch_compute(table.dtype, [&]<class T>(TypeTag<T>) { generate<T>(device, gather, out); });
  });
}

/// out[v, c] = sum of rows[n, c] over the run of v (see find_index_runs). out: contiguous [values, width];
/// rows: contiguous [count, width], floating.
inline void sum_rows(Device device, const View& out, const View& rows, const IndexRuns& runs) {
  const std::int64_t total = layout::numel(out.shape);
  if (total == 0) return;
  const std::int64_t width = out.shape[1];
  dispatch(rows.dtype, [&]<class S>(TypeTag<S>) {
    const detail::SumRows<Stored<S>> sums{static_cast<const Stored<S>*>(rows.data), runs, width, total};
    if (!device.is_cpu()) return generate<double>(device, sums, out);
    auto* const to = static_cast<std::byte*>(out.data);
    cpu::parallel_for(out.shape[0], detail::row_grain(width), [&](std::int64_t begin, std::int64_t end) {
      cpu::TileBuffer<double> buffer;
      for (std::int64_t r = begin; r < end; ++r) {
        if (runs.first[r] == runs.last[r]) {  // most rows of a large table; zero has no bits in any dtype
          std::memset(to + r * width * size_of(out.dtype), 0,
                      static_cast<std::size_t>(width * size_of(out.dtype)));
          continue;
        }
        for (std::int64_t c = 0; c < width; c += cpu::kTile) {
          const std::int64_t n = std::min(cpu::kTile, width - c);
          sums.part(r, c, n, buffer.values);
          cpu::convert(buffer.values, DType::f64, to + (r * width + c) * size_of(out.dtype), out.dtype, n);
        }
      }
    });
  });
}

}  // namespace mezzo::kernels
