// What the CPU's poolings share: how the windows of one row of results lie on a row of the input. A kernel
// goes row by row through rows of images, so that both memory layouts are one case: the elements of a place,
// `inner` of them, are all channels or one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu::detail {

/// step(i) for i in [0, n), which are independent of each other.
template <class Step>
MEZZO_ALWAYS_INLINE void each_element(std::int64_t n, Step step) {
  MEZZO_INDEPENDENT_LOOP
  for (std::int64_t i = 0; i < n; ++i) step(i);
}

/// Prefetches the memory 1 KiB ahead of the next `count` elements of a row: several streams of short rows are
/// too much for the processor's own prefetching. Measured: from 2 KiB ahead on it has no effect.
template <class T>
MEZZO_ALWAYS_INLINE void fetch_ahead(const T* row, std::int64_t count) {
  constexpr std::int64_t kAhead = 1024, kLine = 64;
  const char* const ahead = reinterpret_cast<const char*>(row) + kAhead;
  for (std::int64_t b = 0; b < count * std::int64_t{sizeof(T)}; b += kLine) __builtin_prefetch(ahead + b);
}

/// Windows along a row, as loops take them.
struct RowWindows {
  std::int64_t outputs, inputs, inner;
  std::int64_t kernel, stride, padding, dilation;
  /// Whether to walk along the windows for each position of the kernel, in vectors of windows; else along the
  /// places of each window, in vectors of channels.
  bool by_position;
  // By position: [kernel], the windows in which position k of the kernel is a place.
  const PlaceRange* windows = nullptr;
  // Else: [outputs], the places of a window, and [inputs], the windows over a place.
  const PlaceRange* places = nullptr;
  const PlaceRange* covering = nullptr;

  /// The place at position k of the kernel in the first window that has it.
  [[nodiscard]] MEZZO_ALWAYS_INLINE std::int64_t first_place(std::int64_t k) const {
    return windows[k].first * stride - padding + k * dilation;
  }
};

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

/// Owns the tables of RowWindows.
class RowTables {
 public:
  explicit RowTables(const Pooling& pooling)
      : all_{.outputs = pooling.windows.output[kDim],
             .inputs = pooling.windows.input[kDim],
             .inner = pooling.inner,
             .kernel = pooling.windows.kernel[kDim],
             .stride = pooling.windows.stride[kDim],
             .padding = pooling.windows.padding[kDim],
             .dilation = pooling.adaptive ? 1 : pooling.windows.dilation[kDim],
             .by_position = pooling.inner == 1 && !pooling.adaptive &&
                            pooling.windows.output[kDim] >= kFewWindows &&
                            pooling.windows.kernel[kDim] <= kWideKernel},
        memory_(all_.by_position ? all_.kernel : all_.outputs + all_.inputs) {
    PlaceRange* next = memory_.data();
    if (all_.by_position) {
      all_.windows = next;
      for (std::int64_t k = 0; k < all_.kernel; ++k) *next++ = windows_at(pooling.windows, kDim, k);
      return;
    }
    all_.places = next;
    for (std::int64_t o = 0; o < all_.outputs; ++o) *next++ = pooling.places(kDim, o);
    all_.covering = next;
    for (std::int64_t i = 0; i < all_.inputs; ++i) *next++ = pooling.covering(kDim, i);
  }
  [[nodiscard]] const RowWindows& operator*() const { return all_; }

 private:
  static constexpr std::size_t kDim = 2;
  static constexpr std::int64_t kFewWindows = 8, kWideKernel = 64;

  RowWindows all_;
  RowScratch<PlaceRange> memory_;
};

/// A row of an image, or of its results.
struct RowPlace {
  std::int64_t image, d, h;
};
/// Row `r` of all, in images of `sizes`.
[[nodiscard]] inline RowPlace row_place(std::int64_t r, const Windows::Sizes& sizes) {
  const std::int64_t plane = r / sizes[1];
  return {plane / sizes[0], plane % sizes[0], r % sizes[1]};
}
[[nodiscard]] inline std::int64_t row_index(const RowPlace& place, const Windows::Sizes& sizes) {
  return (place.image * sizes[0] + place.d) * sizes[1] + place.h;
}

/// The array as rows along the last spatial dim, channels included.
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

}  // namespace mezzo::kernels::cpu::detail
