// The CUDA kernel behind kernels/recurrent/recurrent.h: a thread per element of the state, neighbours along a
// row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/cuda/strided.h"
#include "mezzo/kernels/recurrent/numbers.h"

namespace mezzo::kernels::cuda {

namespace detail {

/// Operands of a cell, inputs first.
template <std::size_t N>
struct CellArrays {
  Array arrays[N];
};

template <class T>
__device__ MEZZO_ALWAYS_INLINE T load_cell(const Array& array, std::int64_t i) {
  return array.data == nullptr ? T(0) : load<T, Among::floating>(array.data, array.dtype, i);
}

template <class T, class F, std::size_t N, std::size_t... I, std::size_t... J>
__device__ MEZZO_ALWAYS_INLINE void cell_element(const F& f, const CellArrays<N>& operands,
                                                 const std::int64_t (&at)[N], std::index_sequence<I...>,
                                                 std::index_sequence<J...>) {
  const auto y = f(Numbers<T, F::kInputs>{{load_cell<T>(operands.arrays[I], at[I])...}});
  (store<T, Among::floating>(operands.arrays[F::kInputs + J].data, operands.arrays[F::kInputs + J].dtype,
                             at[F::kInputs + J], y.at[J]),
   ...);
}

/// Indices stay below space.total(), the number of elements that every array has. A thread reads all of its
/// inputs before it writes, and no other thread touches them.
template <class T, class F, std::size_t N>
__global__ void cell_kernel(F f, CellArrays<N> operands, Space<N> space) {
  for (std::int64_t i = first_index(); i < space.total(); i += grid_size()) {
    std::int64_t at[N];
    space.offsets(i, at);
    cell_element<T>(f, operands, at, std::make_index_sequence<F::kInputs>{},
                    std::make_index_sequence<F::kResults>{});
  }
}

}  // namespace detail

/// See kernels::cell_map; arithmetic is in T.
template <class T, class F>
void cell_map(Device device, F f, const std::array<View, F::kResults>& results,
              const std::array<View, F::kInputs>& inputs) {
  constexpr std::size_t kArrays = F::kInputs + F::kResults;
  std::array<Dims, kArrays> strides;
  detail::CellArrays<kArrays> operands{};
  for (std::size_t k = 0; k < kArrays; ++k) {
    const View& view = k < F::kInputs ? inputs[k] : results[k - F::kInputs];
    strides[k] = view.strides;
    operands.arrays[k] = {view.data, view.dtype};
  }
  const Space<kArrays> space(results[0].shape, strides);
  start(device, space.total(), detail::cell_kernel<T, F, kArrays>, f, operands, space);
}

}  // namespace mezzo::kernels::cuda
