// The CUDA loop behind kernels::generate: a thread per block of four elements.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/cuda/strided.h"

namespace mezzo::kernels::cuda {

namespace detail {

template <class T, class F>
__global__ void generate(F f, Array out, Space<1> space) {
  if constexpr (requires { f.words.read_base(); }) f.words.read_base();
  const std::int64_t total = space.total();
  for (std::int64_t block = first_index(); 4 * block < total; block += grid_size()) {
    T values[4];
    f(block, values);
    const std::int64_t rest = total - 4 * block;
    for (std::int64_t i = 0; i < 4 && i < rest; ++i) {
      store(out.data, out.dtype, space.offset(4 * block + i), values[i]);
    }
  }
}

}  // namespace detail

/// See kernels/random/generate.h.
template <class T, class F>
void generate(Device device, F f, const View& out) {
  const Space<1> space(out.shape, {out.strides});
  start_resident(device, (space.total() + 3) / 4, detail::generate<T, F>, f, Array{out.data, out.dtype},
                 space);
}

}  // namespace mezzo::kernels::cuda
