// The CPU's loop behind kernels/recurrent/recurrent.h: pieces of rows that fit into the first-level cache
// with all their operands, one vector loop per functor.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/recurrent/numbers.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels::cpu {

namespace detail {

/// Columns of a piece: a cell has up to 20 operands.
inline constexpr std::int64_t kCellTile = 256;

template <class T>
struct CellBuffer {
  alignas(64) T values[kCellTile];
};

template <class T, class F>
struct CellTile {
  using In = std::array<const T*, F::kInputs>;
  using Out = std::array<T*, F::kResults>;
  static void run(F f, In in, Out out, std::int64_t n) {
    loop(f, in, out, n, std::make_index_sequence<F::kInputs>{}, std::make_index_sequence<F::kResults>{});
  }

 private:
  template <std::size_t... I, std::size_t... J>
  [[gnu::always_inline]] static void loop(F f, In in, Out out, std::int64_t n,
                                          std::index_sequence<I...> /*inputs*/,
                                          std::index_sequence<J...> /*results*/) {
    // A result may be an input's own memory but never overlaps it shifted, so iterations are independent.
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      const auto y = f(Numbers<T, F::kInputs>{{in[I][i]...}});
      ((out[J][i] = y.at[J]), ...);
    }
  }
};

/// Where element (row, column) lies; rows are counted over all dims but the last.
inline std::byte* cell_element(const View& view, std::int64_t row, std::int64_t column) {
  std::int64_t offset = column * view.strides.back();
  for (std::size_t d = view.strides.size() - 2; d > 0; --d) {
    offset += row % view.shape[d] * view.strides[d];
    row /= view.shape[d];
  }
  return static_cast<std::byte*>(view.data) + (offset + row * view.strides[0]) * size_of(view.dtype);
}
template <class T>
bool cell_in_place(const View& view) {
  return view.dtype == dtype_of<T> && view.strides.back() == 1;
}

/// Elements (row, column) to (row, column + n) as T: where they are, or in the buffer.
template <class T>
const T* read_cell(const View& view, std::int64_t row, std::int64_t column, std::int64_t n,
                   CellBuffer<T>& buffer) {
  if (view.data == nullptr) {
    std::fill_n(buffer.values, n, T(0));
    return buffer.values;
  }
  const std::byte* const at = cell_element(view, row, column);
  if (cell_in_place<T>(view)) return reinterpret_cast<const T*>(at);
  gather(at, view.dtype, view.strides.back(), buffer.values, dtype_of<T>, n);
  return buffer.values;
}

}  // namespace detail

/// See kernels::cell_map; arithmetic is in T.
template <class T, class F>
void cell_map(F f, const std::array<View, F::kResults>& results, const std::array<View, F::kInputs>& inputs) {
  using namespace detail;
  const std::int64_t columns = results[0].shape.back();
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < results[0].shape.size(); ++d) rows *= results[0].shape[d];
  if (rows == 0 || columns == 0) return;
  const std::int64_t width = std::min(columns, kCellTile), pieces = (columns - 1) / width + 1;
  constexpr std::int64_t kChunk = 4096;  // elements that take some 10 us
  parallel_for(rows * pieces, kChunk / width, [&](std::int64_t begin, std::int64_t end) {
    std::array<CellBuffer<T>, F::kInputs> in_buffers;
    std::array<CellBuffer<T>, F::kResults> out_buffers;
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t row = piece / pieces, column = piece % pieces * width;
      const std::int64_t n = std::min(width, columns - column);
      std::array<const T*, F::kInputs> in;
      std::array<T*, F::kResults> out;
      for (std::size_t k = 0; k < in.size(); ++k) in[k] = read_cell(inputs[k], row, column, n, in_buffers[k]);
      for (std::size_t k = 0; k < out.size(); ++k) {
        out[k] = cell_in_place<T>(results[k]) ? reinterpret_cast<T*>(cell_element(results[k], row, column))
                                              : out_buffers[k].values;
      }
      run_isa<CellTile<T, F>>(f, in, out, n);
      for (std::size_t k = 0; k < out.size(); ++k) {
        if (cell_in_place<T>(results[k])) continue;
        scatter(out[k], dtype_of<T>, cell_element(results[k], row, column), results[k].dtype,
                results[k].strides.back(), n);
      }
    }
  });
}

}  // namespace mezzo::kernels::cpu
