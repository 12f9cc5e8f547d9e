// The CPU's loop for arrays that are computed from the index alone: constants, ranges, random numbers.
#pragma once

#include <array>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/tile.h"

namespace mezzo::kernels::cpu {

namespace detail {

template <class F, class T>
struct GenerateTile {
  static void run(F f, T* out, std::int64_t first_block, std::int64_t n) {
    const std::int64_t blocks = n / 4;
    for (std::int64_t b = 0; b < blocks; ++b) f(first_block + b, out + 4 * b);
    if (n % 4 == 0) return;
    T last[4];
    f(first_block + blocks, last);
    for (std::int64_t i = 0; i < n % 4; ++i) out[4 * blocks + i] = last[i];
  }
};

}  // namespace detail

/// See kernels/random/generate.h.
template <class T, class F>
void generate(F f, const View& out) {
  Shape shape = out.shape;
  std::array<Dims, 1> strides{out.strides};
  const std::int64_t total = layout::numel(shape);
  if (total == 0) return;
  layout::collapse(shape, strides);
  const TileOperand target(out, shape, strides[0]);
  static_assert(kTile % 4 == 0);
  parallel_for(total, 32 * kTile, [&](std::int64_t begin, std::int64_t end) {
    TileBuffer<T> buffer;
    for (std::int64_t at = begin; at < end; at += kTile) {
      const std::int64_t n = std::min(kTile, end - at);
      run_isa<detail::GenerateTile<F, T>>(f, target.target<T>(at, buffer), at / 4, n);
      target.finish<T>(at, n, buffer);
    }
  });
}

}  // namespace mezzo::kernels::cpu
