// Which places of an input and which windows meet, for CUDA kernels of convolutions by columns and of fold.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/quotient.h"
#include "mezzo/kernels/pool/windows.h"

namespace mezzo::kernels::cuda {

/// The position of a place along each dim.
struct Position {
  std::int64_t at[Windows::kDims];
};
/// Places of an input, of a kernel or of what windows there are, numbered in row-major order of these sizes.
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Position position_of(std::int64_t place,
                                                                  const Windows::Sizes& sizes) {
  const std::int64_t rest = quotient(place, sizes[2]), first = quotient(rest, sizes[1]);
  return {{first, rest - first * sizes[1], place - rest * sizes[2]}};
}
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::int64_t place_of(const Position& p,
                                                                   const Windows::Sizes& sizes) {
  return (p.at[0] * sizes[1] + p.at[1]) * sizes[2] + p.at[2];
}

/// Calls f(k, place) for every position k of the kernel in the window at `t`, in order, with the place of the
/// input that it covers, or -1 in the padding.
template <class F>
__device__ MEZZO_ALWAYS_INLINE void for_each_covered(const Windows& windows, const Position& t, const F& f) {
  std::int64_t number = 0;
  Position p;
  for (std::int64_t k0 = 0; k0 < windows.kernel[0]; ++k0) {
    p.at[0] = windows.position(0, t.at[0], k0);
    for (std::int64_t k1 = 0; k1 < windows.kernel[1]; ++k1) {
      p.at[1] = windows.position(1, t.at[1], k1);
      const bool row = windows.inside(0, p.at[0]) && windows.inside(1, p.at[1]);
      for (std::int64_t k2 = 0; k2 < windows.kernel[2]; ++k2) {
        p.at[2] = windows.position(2, t.at[2], k2);
        f(number++, row && windows.inside(2, p.at[2]) ? place_of(p, windows.input) : -1);
      }
    }
  }
}

/// The window along a dim whose kernel position k covers `position`, or -1.
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::int64_t window_over(const Windows& windows, std::size_t d,
                                                                      std::int64_t position, std::int64_t k) {
  const std::int64_t start = position + windows.padding[d] - k * windows.dilation[d];
  if (start < 0) return -1;
  const std::int64_t window = quotient(start, windows.stride[d]);
  return window * windows.stride[d] == start && window < windows.output[d] ? window : -1;
}

/// Calls f(k, t) for every window t that covers position `p` of the input, with its kernel's position k
/// there, in the order of k.
template <class F>
__device__ MEZZO_ALWAYS_INLINE void for_each_cover(const Windows& windows, const Position& p, const F& f) {
  Position k, t;
  for (k.at[0] = 0; k.at[0] < windows.kernel[0]; ++k.at[0]) {
    t.at[0] = window_over(windows, 0, p.at[0], k.at[0]);
    if (t.at[0] < 0) continue;
    for (k.at[1] = 0; k.at[1] < windows.kernel[1]; ++k.at[1]) {
      t.at[1] = window_over(windows, 1, p.at[1], k.at[1]);
      if (t.at[1] < 0) continue;
      for (k.at[2] = 0; k.at[2] < windows.kernel[2]; ++k.at[2]) {
        t.at[2] = window_over(windows, 2, p.at[2], k.at[2]);
        if (t.at[2] >= 0) f(place_of(k, windows.kernel), place_of(t, windows.output));
      }
    }
  }
}

}  // namespace mezzo::kernels::cuda
