// From the index of an element of [outer, a, b, c, inner] to its place.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "mezzo/core/host_device.h"

namespace mezzo::kernels::cuda {

struct ImagePlace {
  std::int64_t outer, at[3], inner;
};

namespace detail {
template <class Index>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE ImagePlace image_place(Index e, Index a, Index b, Index c,
                                                                    Index inner) {
  const Index place = e / inner, row = place / c, plane = row / b, outer = plane / a;
  const auto wide = [](Index i) { return static_cast<std::int64_t>(i); };
  return {wide(outer),
          {wide(plane - outer * a), wide(row - plane * b), wide(place - row * c)},
          wide(e - place * inner)};
}
}  // namespace detail

/// Place of element `e` in row-major order; sizes are at least 1. 64-bit division takes a hundred
/// instructions, so only indices that need it get it: no size exceeds the array's.
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE ImagePlace image_place(std::int64_t e, std::int64_t a,
                                                                    std::int64_t b, std::int64_t c,
                                                                    std::int64_t inner) {
  if ((e | a | b | c | inner) >> 32 != 0)
    return detail::image_place<std::uint64_t>(static_cast<std::uint64_t>(e), static_cast<std::uint64_t>(a),
                                              static_cast<std::uint64_t>(b), static_cast<std::uint64_t>(c),
                                              static_cast<std::uint64_t>(inner));
  return detail::image_place<std::uint32_t>(static_cast<std::uint32_t>(e), static_cast<std::uint32_t>(a),
                                            static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(c),
                                            static_cast<std::uint32_t>(inner));
}

}  // namespace mezzo::kernels::cuda
