// Sums of rows by index: the gradient of embedding. The arithmetic is in a functor, of which a CUDA device
// takes four elements at a time and the CPU whole rows, in the same order, so that every device computes the
// same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/indexing/indexing.h"
#include "mezzo/kernels/math/cast_math.h"
#include "mezzo/kernels/math/quotient.h"
#include "mezzo/kernels/random/generate.h"
#include "mezzo/kernels/view.h"
#if MEZZO_DEVICE_CODE
#include "mezzo/kernels/cuda/convert.h"
#include "mezzo/kernels/cuda/scratch.h"
#endif

namespace mezzo::kernels {

namespace detail {

/// A NaN's sign and payload mean nothing in a sum.
template <class S>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double widened(S value) {
#if defined(__CUDA_ARCH__)
  return cuda::convert<double>(value);
#else
  return cast<double>(value);
#endif
}

/// Elements 4 b to 4 b + 3 of rows of `width`, `total` elements in all, by `what.part(row, column, count,
/// values)`: as four neighbours where they are some. Adds up in variables of its own, which become registers.
template <class What>
MEZZO_HD MEZZO_ALWAYS_INLINE void find_four(const What& what, std::int64_t block, std::int64_t total,
                                            std::int64_t width, double* values) {
  const std::int64_t row = quotient(4 * block, width), column = 4 * block - row * width;
  double four[4];
  if (column + 4 <= width) {
    what.part(row, column, std::integral_constant<std::int64_t, 4>{}, four);
    for (std::int64_t k = 0; k < 4; ++k) values[k] = four[k];
    return;
  }
  for (std::int64_t i = 0; i < 4 && 4 * block + i < total; ++i) {
    const std::int64_t own = quotient(4 * block + i, width);
    what.part(own, 4 * block + i - own * width, std::integral_constant<std::int64_t, 1>{}, four);
    values[i] = four[0];
  }
}

/// Rows of a contiguous array that belong together, and their sums: in f64, the sums of pieces of a run
/// (kRunPiece; the last may be shorter) in order.
template <class S>
struct SumRows {
  const S* data;
  IndexRuns runs;
  std::int64_t width, total;       ///< of a row, and elements of the result
  const double* pieces = nullptr;  ///< [piece_slots, width], what SumPieces finds; for operator()

  /// values[k] += column + k of the rows at [begin, end) of the order. `count` may be a constant.
  template <class Count>
  MEZZO_HD MEZZO_ALWAYS_INLINE void add(std::int64_t begin, std::int64_t end, std::int64_t column,
                                        Count count, double* values) const {
    for (std::int64_t n = begin; n < end; ++n) {
      const S* const from = data + runs.order[n] * width + column;
      for (std::int64_t k = 0; k < count; ++k) values[k] += widened(from[k]);
    }
  }
  /// Columns of one row of the result, at most four.
  template <class Count>
  MEZZO_HD MEZZO_ALWAYS_INLINE void part(std::int64_t row, std::int64_t column, Count count,
                                         double* values) const {
    double rest[4] = {};
    for (std::int64_t k = 0; k < count; ++k) values[k] = 0;
    const std::int64_t first = runs.first[row], last = runs.last[row];
    const std::int64_t whole = (last - first) / kRunPiece;
    for (std::int64_t p = 0; p < whole; ++p) {
      const double* const piece = pieces + piece_slot(first + p * kRunPiece) * width + column;
      for (std::int64_t k = 0; k < count; ++k) values[k] += piece[k];
    }
    add(first + whole * kRunPiece, last, column, count, rest);
    for (std::int64_t k = 0; k < count; ++k) values[k] += rest[k];
  }
  /// A block of four elements of the result.
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, double* values) const {
    find_four(*this, block, total, width, values);
  }
};

/// The sums of whole pieces, [piece_slots, width]; 0 where none begins. `index` is what the runs are of.
template <class S>
struct SumPieces {
  SumRows<S> rows;
  const std::int64_t* index;

  template <class Count>
  MEZZO_HD MEZZO_ALWAYS_INLINE void part(std::int64_t slot, std::int64_t column, Count count,
                                         double* values) const {
    for (std::int64_t k = 0; k < count; ++k) values[k] = 0;
    const std::int64_t begin = begin_of(slot);
    if (begin >= 0) rows.add(begin, begin + kRunPiece, column, count, values);
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, double* values) const {
    find_four(*this, block, piece_slots(rows.runs.count) * rows.width, rows.width, values);
  }

 private:
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t begin_of(std::int64_t slot) const {
    const std::int64_t witness = piece_witness(slot), value = index[rows.runs.order[witness]];
    if (value < 0 || value >= rows.runs.values) return -1;
    const std::int64_t first = rows.runs.first[value], last = rows.runs.last[value];
    return first <= witness && witness < last ? piece_begin(slot, first, last) : -1;
  }
};

/// Memory of a thread of the CPU.
struct RunSums {
  cpu::TileBuffer<double> piece, sums;
};
/// SumRows::part on the CPU, whose threads go through whole runs: where the sums are. Inlined, so that the
/// compiler sees how they are aligned.
template <class S>
[[nodiscard]] MEZZO_ALWAYS_INLINE const double* sum_run(const SumRows<S>& rows, std::int64_t row,
                                                        std::int64_t column, std::int64_t count,
                                                        RunSums& memory) {
  const std::int64_t first = rows.runs.first[row], last = rows.runs.last[row];
  double *const piece = memory.piece.values, *const sums = memory.sums.values;
  std::fill_n(piece, count, 0.0);
  if (last - first <= kRunPiece) {
    rows.add(first, last, column, count, piece);
    return piece;
  }
  std::fill_n(sums, count, 0.0);
  for (std::int64_t n = first; n < last; n += kRunPiece) {
    std::fill_n(piece, count, 0.0);
    rows.add(n, std::min(n + kRunPiece, last), column, count, piece);
    for (std::int64_t k = 0; k < count; ++k) sums[k] += piece[k];
  }
  return sums;
}

/// Rows per chunk of a thread.
inline std::int64_t row_grain(std::int64_t width) { return std::max<std::int64_t>(32768 / width, 1); }

}  // namespace detail

/// out[v, c] = sum of rows[n, c] over the run of v (see find_index_runs, whose `index` and runs these are).
/// out: contiguous [values, width]; rows: contiguous [count, width], floating.
inline void sum_rows(Device device, const View& out, const View& rows, const std::int64_t* index,
                     const IndexRuns& runs) {
  const std::int64_t total = layout::numel(out.shape);
  if (total == 0) return;
  const std::int64_t width = out.shape[1];
  const auto sum_rows_of = [&]<class S>(TypeTag<S>) {
    detail::SumRows<Stored<S>> sums{static_cast<const Stored<S>*>(rows.data), runs, width, total};
#if MEZZO_DEVICE_CODE
    if (device.is_cuda()) {
      const std::int64_t slots = piece_slots(runs.count);
      const cuda::Scratch pieces(device, slots * width * std::int64_t{sizeof(double)});
      if (slots > 0) {
        cuda::generate<double>(device, detail::SumPieces<Stored<S>>{sums, index},
                               {pieces.data(), DType::f64, {slots * width}, {1}});
      }
      sums.pieces = static_cast<const double*>(pieces.data());
      return cuda::generate<double>(device, sums, out);
    }
#endif
    static_cast<void>(index);
    require_host_kernel(device);
    auto* const to = static_cast<std::byte*>(out.data);
    cpu::parallel_for(out.shape[0], detail::row_grain(width), [&](std::int64_t begin, std::int64_t end) {
      detail::RunSums memory;
      for (std::int64_t r = begin; r < end; ++r) {
        if (runs.first[r] == runs.last[r]) {  // most rows of a large table; zero has no bits in any dtype
          std::memset(to + r * width * size_of(out.dtype), 0,
                      static_cast<std::size_t>(width * size_of(out.dtype)));
          continue;
        }
        for (std::int64_t c = 0; c < width; c += cpu::kTile) {
          const std::int64_t n = std::min(cpu::kTile, width - c);
          cpu::convert(detail::sum_run(sums, r, c, n, memory), DType::f64,
                       to + (r * width + c) * size_of(out.dtype), out.dtype, n);
        }
      }
    });
  };
  dispatch(rows.dtype, [&]<class S>(TypeTag<S> type) {
    if constexpr (std::is_floating_point_v<S> || detail::kIs16Bit<S>) sum_rows_of(type);
  });
}

}  // namespace mezzo::kernels
