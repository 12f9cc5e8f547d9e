// Sums of rows by index: the gradient of embedding. The arithmetic is in a functor, of which a CUDA device
// takes four elements at a time and the CPU whole rows, so that every device computes the same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/indexing/indexing.h"
#include "mezzo/kernels/math/cast_math.h"
#include "mezzo/kernels/random/generate.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

namespace detail {

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
  /// A block of four elements, as parts of one or more rows.
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, double* values) const {
    for (std::int64_t i = 0; i < 4 && 4 * block + i < total;) {
      const std::int64_t row = (4 * block + i) / width, column = 4 * block + i - row * width;
      const std::int64_t left = width - column, count = left < 4 - i ? left : 4 - i;
      part(row, column, count, values + i);
      i += count;
    }
  }
};

/// Rows per chunk of a thread.
inline std::int64_t row_grain(std::int64_t width) { return std::max<std::int64_t>(32768 / width, 1); }

}  // namespace detail

/// out[v, c] = sum of rows[n, c] over the run of v (see find_index_runs). out: contiguous [values, width];
/// rows: contiguous [count, width], floating.
inline void sum_rows(Device device, const View& out, const View& rows, const IndexRuns& runs) {
  const std::int64_t total = layout::numel(out.shape);
  if (total == 0) return;
  const std::int64_t width = out.shape[1];
  dispatch(rows.dtype, [&]<class S>(TypeTag<S>) {
    const detail::SumRows<Stored<S>> sums{static_cast<const Stored<S>*>(rows.data), runs, width, total};
#if MEZZO_DEVICE_CODE
    if (device.is_cuda()) return cuda::generate<double>(device, sums, out);
#endif
    require_host_kernel(device);
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
