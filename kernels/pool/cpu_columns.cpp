// fold on the CPU, by the rows of windows that position k of the kernel makes of a row of the image.
#include "mezzo/kernels/pool/pool.h"

#include <algorithm>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/pool/cpu_images.h"
#include "mezzo/kernels/pool/pool_places.h"

namespace mezzo::kernels::cpu {

namespace {

/// The windows in which position k of the kernel is a place of the input along `dim`.
MEZZO_ALWAYS_INLINE PlaceRange windows_at(const Windows& windows, std::size_t dim, std::int64_t k) {
  const std::int64_t step = windows.stride[dim], out = windows.output[dim];
  const std::int64_t before = windows.padding[dim] - k * windows.dilation[dim];
  const std::int64_t last = windows.input[dim] - 1 + before;
  const std::int64_t first = before <= 0 ? 0 : quotient(before + step - 1, step);
  const std::int64_t end = last < 0 ? 0 : quotient(last, step) + 1;
  return {first, end < out ? end : out};
}

/// A position of the kernel, and the windows in which it is a place of the image, per dim.
struct Position {
  Windows::Sizes k;
  std::array<PlaceRange, Windows::kDims> windows;

  Position(const Windows& all, std::int64_t number)
      : k{number / (all.kernel[1] * all.kernel[2]), number / all.kernel[2] % all.kernel[1],
          number % all.kernel[2]},
        windows{windows_at(all, 0, k[0]), windows_at(all, 1, k[1]), windows_at(all, 2, k[2])} {}

  /// The place of the first window of row (d, h) that has one.
  [[nodiscard]] std::int64_t place(const Windows& all, std::int64_t d, std::int64_t h) const {
    const std::int64_t row = all.position(0, d, k[0]) * all.input[1] + all.position(1, h, k[1]);
    return row * all.input[2] + all.position(2, windows[2].first, k[2]);
  }
};

template <class T>
struct AddRow {
  static void run(const T* columns, T* x, std::int64_t step, std::int64_t n) {
    if (step == 1) {
      MEZZO_INDEPENDENT_LOOP
      for (std::int64_t o = 0; o < n; ++o) x[o] += columns[o];
      return;
    }
    for (std::int64_t o = 0; o < n; ++o) x[o * step] += columns[o];
  }
};

template <class T>
void fold_as(std::int64_t planes, const Windows& windows, const View& x, const View& columns) {
  const std::int64_t inputs = windows.inputs(), outputs = windows.outputs(), kernels = windows.kernels();
  const RowOperand to(View{x.data, x.dtype, {planes, inputs}, {inputs, 1}}, 1);
  const RowOperand from(View{columns.data, columns.dtype, {planes * kernels, outputs}, {outputs, 1}}, 1);
  parallel_for(planes, detail::pool_grain(outputs, kernels), [&](std::int64_t begin, std::int64_t end) {
    const RowScratch<T> sums(to.in_place<T>() ? 0 : inputs), widened(from.in_place<T>() ? 0 : outputs);
    for (std::int64_t p = begin; p < end; ++p) {
      T* const image = to.target<T>(p, sums.data()).data;
      std::fill_n(image, inputs, T{0});
      for (std::int64_t number = 0; number < kernels; ++number) {
        const Position at(windows, number);
        const PlaceRange widths = at.windows[2];
        const T* const column = from.read<T>(p * kernels + number, 1, widened.data()).data;
        if (widths.count() <= 0) continue;
        for (std::int64_t d = at.windows[0].first; d < at.windows[0].last; ++d) {
          for (std::int64_t h = at.windows[1].first; h < at.windows[1].last; ++h) {
            const std::int64_t row = (d * windows.output[1] + h) * windows.output[2];
            run_isa<AddRow<T>>(column + row + widths.first, image + at.place(windows, d, h),
                               windows.stride[2], widths.count());
          }
        }
      }
      to.finish(p, 1, sums.data());
    }
  });
}

}  // namespace

void fold(std::int64_t planes, const Windows& windows, const View& x, const View& columns) {
  if (compute_dtype(x.dtype) == DType::f64 || compute_dtype(columns.dtype) == DType::f64)
    return fold_as<double>(planes, windows, x, columns);
  fold_as<float>(planes, windows, x, columns);
}

}  // namespace mezzo::kernels::cpu
