// What the CPU's poolings share: the loop over rows of results with the rows of the other array that they
// need, and steps over groups of elements that fill a vector. The elements of a row are places with `inner`
// elements each, all channels or one, so both memory layouts are one case.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/pool/pool.h"

/// The head of a step of each_group: a lambda of kLanes and of the first element, `i`. It is inlined at every
/// call, so that it is compiled for the caller's instruction set.
#define MEZZO_GROUP_STEP(i)                                                      \
  [&]<int kLanes>(std::integral_constant<int, kLanes> /*lanes*/, std::int64_t i) \
      __attribute__((always_inline))

namespace mezzo::kernels::cpu::detail {

/// step(i) for i in [0, n), which are independent of each other.
template <class Step>
MEZZO_ALWAYS_INLINE void each_element(std::int64_t n, Step step) {
  MEZZO_INDEPENDENT_LOOP
  for (std::int64_t i = 0; i < n; ++i) step(i);
}

/// See each_group.
template <int kLanes, class Step>
MEZZO_ALWAYS_INLINE void each_group_of(std::int64_t n, bool beyond, const Step& step) {
  for (std::int64_t i = 0; i < n; i += kLanes)
    step(std::integral_constant<int, kLanes>{}, beyond || i + kLanes < n ? i : n - kLanes);
}

/// Lanes in the largest group of elements of T: two vectors of AVX2.
template <class T>
inline constexpr int kMostLanes = sizeof(T) == 8 ? 4 : 64 / sizeof(T);

/// step(lanes, first) for groups of `lanes` elements, a constant of at most kMost, that make up [0, n): as
/// wide ones as n has room for, of which the last one overlaps with the one before, so a step may come twice.
/// With `beyond` the last group goes on beyond n instead, so that short rows too fill a vector.
template <int kMost, class Step>
MEZZO_ALWAYS_INLINE void each_group(std::int64_t n, bool beyond, const Step& step) {
  if constexpr (kMost >= 32) {
    if (n >= 32 || (beyond && n > 16)) return each_group_of<32>(n, beyond, step);
  }
  if constexpr (kMost >= 16) {
    if (n >= 16 || (beyond && n > 8)) return each_group_of<16>(n, beyond, step);
  }
  if constexpr (kMost >= 8) {
    if (n >= 8 || (beyond && n > 4)) return each_group_of<8>(n, beyond, step);
  }
  if (n >= 4) return each_group_of<4>(n, beyond, step);
  each_group_of<1>(n, beyond, step);
}

/// Calls f with the distance of neighbouring windows, as a constant where loops become faster by that.
template <class F>
MEZZO_ALWAYS_INLINE void with_stride(std::int64_t stride, const F& f) {
  if (stride == 1)
    f(std::integral_constant<std::int64_t, 1>{});
  else if (stride == 2)
    f(std::integral_constant<std::int64_t, 2>{});
  else
    f(stride);
}

/// A row of an image, or of its results.
struct RowPlace {
  std::int64_t image, d, h;

  /// Row `r` of all, in images of `sizes`; and the other way round.
  [[nodiscard]] MEZZO_ALWAYS_INLINE static RowPlace of(std::int64_t r, const Windows::Sizes& sizes) {
    const std::int64_t plane = r / sizes[1];
    return {plane / sizes[0], plane % sizes[0], r % sizes[1]};
  }
  [[nodiscard]] MEZZO_ALWAYS_INLINE std::int64_t row(const Windows::Sizes& sizes) const {
    return (image * sizes[0] + d) * sizes[1] + h;
  }
  MEZZO_ALWAYS_INLINE void next(const Windows::Sizes& sizes) {
    if (++h < sizes[1]) return;
    h = 0;
    if (++d < sizes[0]) return;
    d = 0;
    ++image;
  }
};

/// Whether the windows of planes have 2 by 2 places, share none and lie in the input, which is row-major.
[[nodiscard]] MEZZO_ALWAYS_INLINE bool in_pairs(const Pooling& pooling) {
  const Windows& w = pooling.windows;
  const Windows::Sizes two{1, 2, 2};
  return pooling.inner == 1 && !pooling.adaptive && w.kernel == two && w.stride == two &&
         w.padding == Windows::Sizes{} && w.dilation == Windows::Sizes{1, 1, 1} &&
         2 * w.output[1] <= w.input[1] && 2 * w.output[2] <= w.input[2];
}

/// Rows of results in T, and the rows of the other array that they need.
template <class T>
struct RowBand {
  const T* from;
  PlaceRange from_rows;
  T* data;
  PlaceRange rows;
  /// What is needed next: where it is, and bytes for each place of the results.
  const std::byte* ahead;
  std::int64_t ahead_bytes;

  /// Prefetches the share of so many places.
  MEZZO_ALWAYS_INLINE void fetch_ahead(std::int64_t places) {
    for (std::int64_t b = 0; b < places * ahead_bytes; b += 64) __builtin_prefetch(ahead + b);
    ahead += places * ahead_bytes;
  }
};

/// An array as rows along the last spatial dim, channels included.
[[nodiscard]] inline RowOperand as_rows(const View& array, const Pooling& pooling,
                                        const Windows::Sizes& sizes) {
  const std::int64_t length = sizes[2] * pooling.inner;
  return {View{array.data, array.dtype, {pooling.outer * sizes[0] * sizes[1], length}, {length, 1}}, 1};
}

/// Rows of results per chunk of a thread, each made of `rows` rows of `length` elements.
[[nodiscard]] inline std::int64_t pool_grain(std::int64_t length, std::int64_t rows) {
  constexpr std::int64_t kElements = 65536;
  return std::max<std::int64_t>(kElements / std::max<std::int64_t>(length * rows, 1), 1);
}

/// The rows of images of `in` that rows [begin, end) of results of `out` need, where range(dim, o) are those
/// of one, and others between them.
template <class Range>
[[nodiscard]] PlaceRange rows_needed(PlaceRange rows, const Windows::Sizes& in, const Windows::Sizes& out,
                                     const Range& range) {
  const RowPlace a = RowPlace::of(rows.first, out), b = RowPlace::of(rows.last - 1, out);
  const auto first = [&](std::size_t d, std::int64_t o) { return std::min(range(d, o).first, in[d] - 1); };
  const auto last = [&](std::size_t d, std::int64_t o) {
    return std::max(range(d, o).last, first(d, o) + 1);
  };
  const bool plane = a.image == b.image && a.d == b.d;
  return {RowPlace{a.image, first(0, a.d), plane ? first(1, a.h) : 0}.row(in),
          RowPlace{b.image, last(0, b.d) - 1, plane ? last(1, b.h) - 1 : in[1] - 1}.row(in) + 1};
}

/// body(RowBand<T>) for all rows of `to`, an array of `out`, of which each needs rows of `from`, an array of
/// `in`. Arrays of T are used in place; of others as much as fits the first-level cache is widened at once.
template <class T, class Range, class Body>
void for_bands(const RowOperand& to, const Windows::Sizes& out, const RowOperand& from,
               const Windows::Sizes& in, bool copies, const Range& range, const Body& body) {
  constexpr std::int64_t kWidened = 4096;
  const bool widen = !from.in_place<T>(), round = !to.in_place<T>(), small = widen || round || copies;
  const std::int64_t used = range(0, 0).count() * range(1, 0).count();
  std::int64_t grain = pool_grain(std::max(from.length(), to.length()), std::max<std::int64_t>(used, 1));
  std::int64_t band =
      small ? kWidened / (std::max(to.length() * out[1], from.length() * in[1]) / out[1] + 1) + 1 : grain;
  if (in[0] > 1 || band > out[1]) band = (band + out[1] - 1) / out[1] * out[1];
  grain = (grain + band - 1) / band * band;
  const std::int64_t row_bytes =
      from.row_bytes() * in[0] * in[1] / (out[0] * out[1]);  // needed by a row of results
  parallel_for(to.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    const RowScratch<T> results(round ? std::min(band, end - begin) * to.length() : 0);
    while (begin < end) {
      const std::int64_t left = out[1] - begin % out[1];
      const PlaceRange rows{begin,
                            std::min({begin + band, end, small && band < out[1] ? begin + left : end})};
      const PlaceRange needed = rows_needed(rows, in, out, range);
      const RowScratch<T> widened(widen ? needed.count() * from.length() : 0);
      body(RowBand<T>{from.read<T>(needed.first, needed.count(), widened.data()).data, needed,
                      to.target<T>(begin, results.data()).data, rows,
                      from.packed(needed.first, needed.count()) + row_bytes * (small ? rows.count() : 1),
                      row_bytes / out[2] + 1});
      to.finish(begin, rows.count(), results.data());
      begin = rows.last;
    }
  });
}

}  // namespace mezzo::kernels::cpu::detail
