// What the CPU's poolings share: images as numbers of the compute type, one at a time, and the plain loops'
// way through their places. Both memory layouts are one case: the elements of a place, `inner` of them, are
// all channels or one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu::detail {

/// Images, or rows of them, per chunk of a thread, each made of `rows` rows of `length` elements.
[[nodiscard]] inline std::int64_t pool_grain(std::int64_t length, std::int64_t rows) {
  constexpr std::int64_t kElements = 65536;
  return std::max<std::int64_t>(kElements / std::max<std::int64_t>(length * rows, 1), 1);
}

/// A dense array as `rows` rows.
[[nodiscard]] inline RowOperand as_rows(const View& array, std::int64_t rows, std::int64_t length) {
  return {View{array.data, array.dtype, {rows, length}, {length, 1}}, 1};
}

/// run(x, rows) for every image of `from` as T. rows(step) calls step(row, d, h, r) for the rows of `to`, of
/// places `sizes`, that belong to the image, and stores what that leaves in `row`; r counts those of all
/// images.
template <class T, class Run>
void for_images(const Pooling& pooling, const View& y, const Windows::Sizes& sizes, const View& x,
                std::int64_t x_places, const Run& run) {
  const std::int64_t height = sizes[0] * sizes[1];
  const RowOperand to = as_rows(y, pooling.outer * height, sizes[2] * pooling.inner),
                   from = as_rows(x, pooling.outer, x_places * pooling.inner);
  const std::int64_t grain = pool_grain(from.length() + height * to.length(), 1);
  parallel_for(pooling.outer, grain, [&](std::int64_t begin, std::int64_t end) {
    const RowScratch<T> results(to.in_place<T>() ? 0 : to.length());
    const RowScratch<T> widened(from.in_place<T>() ? 0 : from.length());
    for (std::int64_t image = begin; image < end; ++image) {
      run(from.read<T>(image, 1, widened.data()).data, [&](const auto& step) {
        for (std::int64_t i = 0; i < height; ++i) {
          const std::int64_t r = image * height + i;
          step(to.target<T>(r, results.data()).data, i / sizes[1], i % sizes[1], r);
          to.finish(r, 1, results.data());
        }
      });
    }
  });
}

}  // namespace mezzo::kernels::cpu::detail
