// Elements that indices choose, as the kernels that read and write them see them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "mezzo/kernels/cuda/strided.h"
#include "mezzo/kernels/indexing/places.h"

namespace mezzo::kernels::cuda {

template <class T>
struct Elements {
  T* base;
  const std::int64_t* index;
  std::int64_t step, limit;
  [[nodiscard]] __device__ bool has(std::int64_t i) const { return i >= 0 && i < limit; }
};
template <class T>
[[nodiscard]] Elements<T> elements_of(const Places& places) {
  return {static_cast<T*>(places.base.data), static_cast<const std::int64_t*>(places.index.data), places.step,
          places.limit};
}

template <std::size_t N>
[[nodiscard]] Space<N> space_of(const Walk<N>& walk) {
  return {walk.shape, walk.strides};
}

}  // namespace mezzo::kernels::cuda
