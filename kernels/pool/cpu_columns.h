// Columns: an input as windows see it, one row per channel and position of the kernel, one column per output
// place; and back, each element added to where it came from. Bodies for run_isa.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/pool/windows.h"

namespace mezzo::kernels::cpu {

/// Outputs [begin, end) of a row of them, those whose position lies inside the input; begin >= end for none.
struct OutputRange {
  std::int64_t begin, end;
};

/// For position k of the kernel along the last dim.
[[nodiscard]] MEZZO_ALWAYS_INLINE OutputRange outputs_inside(const Windows& windows, std::int64_t k) {
  const std::int64_t shift = windows.padding[2] - k * windows.dilation[2], stride = windows.stride[2];
  const std::int64_t end = windows.input[2] + shift;
  OutputRange range{shift <= 0 ? 0 : (shift + stride - 1) / stride,
                    end <= 0 ? 0 : (end + stride - 1) / stride};
  if (range.end > windows.output[2]) range.end = windows.output[2];
  return range;
}

/// The part of the columns that is gathered at a time: rows [row, row + rows) of all in_channels * kernels,
/// columns [place, place + places) of all outputs.
struct ColumnPanel {
  std::int64_t row, rows, place, places;
};

/// f(column, count, x, inside): `count` neighbouring columns from `column` on lie in one row of outputs;
/// columns in `inside`, numbered from `column` too, are x[i * stride], all others are outside of the image.
template <class X, class F>
MEZZO_ALWAYS_INLINE void for_column_runs(const Windows& windows, X* channel, std::int64_t position,
                                         std::int64_t place, std::int64_t places, const F& f) {
  const std::int64_t k2 = position % windows.kernel[2], k1 = position / windows.kernel[2] % windows.kernel[1],
                     k0 = position / windows.kernel[2] / windows.kernel[1];
  const OutputRange all = outputs_inside(windows, k2);
  std::int64_t o2 = place % windows.output[2], o1 = place / windows.output[2] % windows.output[1],
               o0 = place / windows.output[2] / windows.output[1];
  for (std::int64_t column = 0; column < places;) {
    const std::int64_t left = windows.output[2] - o2, wanted = places - column,
                       count = left < wanted ? left : wanted;
    const std::int64_t p0 = windows.position(0, o0, k0), p1 = windows.position(1, o1, k1);
    OutputRange inside{all.begin - o2, all.end - o2};
    if (inside.begin < 0) inside.begin = 0;
    if (inside.end > count) inside.end = count;
    if (!windows.inside(0, p0) || !windows.inside(1, p1) || inside.begin >= inside.end)
      inside = {count, count};
    const std::int64_t first = inside.begin == count ? 0
                                                     : (p0 * windows.input[1] + p1) * windows.input[2] +
                                                           windows.position(2, o2 + inside.begin, k2);
    f(column, count, channel + first, inside);
    column += count;
    o2 = 0;
    if (++o1 == windows.output[1]) o1 = 0, ++o0;
  }
}

/// columns[r * places + i] = x, or 0 outside of it. Channels are `channel_stride` apart.
template <class T>
struct GatherColumns {
  static void run(const Windows* geometry, ColumnPanel panel, const T* x, std::int64_t channel_stride,
                  T* columns) {
    const Windows windows = *geometry;
    const std::int64_t kernels = windows.kernels(), stride = windows.stride[2];
    for (std::int64_t r = 0; r < panel.rows; ++r) {
      const std::int64_t row = panel.row + r;
      T* const out = columns + r * panel.places;
      for_column_runs(windows, x + row / kernels * channel_stride, row % kernels, panel.place, panel.places,
                      [&](std::int64_t column, std::int64_t count, const T* in, OutputRange inside) {
                        T* const to = out + column;
                        std::int64_t i = 0;
                        for (; i < inside.begin; ++i) to[i] = T(0);
                        const std::int64_t first = inside.begin;
                        if (stride == 1)
                          for (; i < inside.end; ++i) to[i] = in[i - first];
                        else
                          for (; i < inside.end; ++i) to[i] = in[(i - first) * stride];
                        for (; i < count; ++i) to[i] = T(0);
                      });
    }
  }
};

/// x += columns, where they are inside of it.
template <class T>
struct AddColumns {
  static void run(const Windows* geometry, ColumnPanel panel, const T* columns, T* x,
                  std::int64_t channel_stride) {
    const Windows windows = *geometry;
    const std::int64_t kernels = windows.kernels(), stride = windows.stride[2];
    for (std::int64_t r = 0; r < panel.rows; ++r) {
      const std::int64_t row = panel.row + r;
      const T* const in = columns + r * panel.places;
      for_column_runs(windows, x + row / kernels * channel_stride, row % kernels, panel.place, panel.places,
                      [&](std::int64_t column, std::int64_t /*count*/, T* out, OutputRange inside) {
                        const T* const from = in + column + inside.begin;
                        const std::int64_t n = inside.end - inside.begin;
                        if (stride == 1)
                          for (std::int64_t i = 0; i < n; ++i) out[i] += from[i];
                        else
                          for (std::int64_t i = 0; i < n; ++i) out[i * stride] += from[i];
                      });
    }
  }
};

}  // namespace mezzo::kernels::cpu
