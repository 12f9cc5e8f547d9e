// Poolings by means on the CPU. A window's sum is that of its columns. Rows of the input are added up first,
// in vectors as long as they are, and then the columns of each window; the gradient goes the other way round.
// Channels are added up window by window in registers.
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/pool/cpu_rows.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu {

namespace {

using namespace detail;

/// What the sums of row (d, h) of the results are divided by besides the counts along the row.
template <class T>
[[nodiscard]] MEZZO_ALWAYS_INLINE T factor_of(const AveragePooling& pooling, std::int64_t d, std::int64_t h) {
  return static_cast<T>(pooling.count(0, d) * pooling.count(1, h) * pooling.factor());
}

/// Division by a whole number. A power of two is multiplied with its reciprocal, which is exact: the same
/// bits.
template <class T>
class Divided {
 public:
  MEZZO_ALWAYS_INLINE explicit Divided(T divisor) : divisor_(divisor), scale_(1 / divisor) {
    const T size = divisor < 0 ? -divisor : divisor;
    const auto number = static_cast<std::int64_t>(size < kLarge ? size : kLarge - 1);
    exact_ = (number & (number - 1)) == 0;
  }
  /// to = from / divisor, with 0 for -0, which sums begin with; see add_up.
  template <int kLanes>
  MEZZO_ALWAYS_INLINE void operator()(const T* from, T* to) const {
    if (exact_) {
      MEZZO_KEEP_LOOP
      for (int j = 0; j < kLanes; ++j) to[j] = (from[j] + T{0}) * scale_;
      return;
    }
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) to[j] = (from[j] + T{0}) / divisor_;
  }

 private:
  static constexpr T kLarge = 1 << 20;
  T divisor_, scale_;
  bool exact_;
};

/// Calls step(windows, first, stride) for the positions of the kernel along a row, `first` being the place of
/// the first of the windows that have one. `backwards`: from the last position on, so that each place meets
/// its windows in their order.
template <class Step>
MEZZO_ALWAYS_INLINE void each_position(const Windows& w, bool backwards, const Step& step) {
  with_stride(
      w.stride[2], [&](auto stride) __attribute__((always_inline)) {
        for (std::int64_t i = 0; i < w.kernel[2]; ++i) {
          const std::int64_t k = backwards ? w.kernel[2] - 1 - i : i;
          const PlaceRange windows = windows_at(w, 2, k);
          if (windows.count() > 0) step(windows, w.position(2, windows.first, k), stride);
        }
      });
}

/// How many rows of the input there are under a row of results, and how far apart.
struct RowsUnder {
  std::int64_t depths, heights;
  std::int64_t depth_distance, height_distance;
};

template <class T>
struct MeanOfWindows {
  static void run(RowBand<T> band, AveragePooling pooling, const T* counts, T* columns) {
    const Windows::Sizes &in = pooling.windows.input, &out = pooling.windows.output;
    const std::int64_t in_row = in[2] * pooling.inner;
    RowPlace at = RowPlace::of(band.rows.first, out);
    if (in_pairs(pooling))
      return of_pairs(band, at, pooling.windows, counts[0] * factor_of<T>(pooling, 0, 0));
    for (std::int64_t left = band.rows.count(); left > 0; --left, at.next(out)) {
      const PlaceRange depths = pooling.places(0, at.d), heights = pooling.places(1, at.h);
      const RowsUnder rows{depths.count(), heights.count(), in[1] * in_row, in_row};
      const T factor = factor_of<T>(pooling, at.d, at.h);
      const std::int64_t top = RowPlace{at.image, depths.first, heights.first}.row(in) - band.from_rows.first;
      const T* const x = band.from + top * in_row;
      if (pooling.inner > 1)
        of_channels(x, rows, pooling, counts, factor, band);
      else
        of_columns(x, rows, pooling, counts, factor, columns, band.data);
      band.data += out[2] * pooling.inner;
    }
  }

 private:
  MEZZO_ALWAYS_INLINE static void of_channels(const T* x, const RowsUnder& rows,
                                              const AveragePooling& pooling, const T* counts, T factor,
                                              RowBand<T>& band) {
    T* y = band.data;
    const std::int64_t inner = pooling.inner;
    for (std::int64_t o = 0; o < pooling.windows.output[2]; ++o, y += inner) {
      band.fetch_ahead(1);
      const PlaceRange places = pooling.places(2, o);
      const T* const from = x + places.first * inner;
      const Divided<T> divided(counts[o] * factor);
      each_group<kMostLanes<T>>(
          inner, false, MEZZO_GROUP_STEP(c) {
            T sum[kLanes];
            if (rows.depths == 1 && rows.heights == 2 &&
                places.count() == 2)  // most nets have these, and short loops cost more
              add_up<kLanes>(from + c, {1, 2, 0, rows.height_distance}, inner, 2, sum);
            else
              add_up<kLanes>(from + c, rows, inner, places.count(), sum);
            divided.template operator()<kLanes>(sum, y + c);
          });
    }
  }
  MEZZO_ALWAYS_INLINE static void of_pairs(const RowBand<T>& band, RowPlace at, const Windows& w, T divisor) {
    const Divided<T> divided(divisor);
    const std::int64_t width = w.input[2], windows = w.output[2];
    T* y = band.data;
    for (std::int64_t left = band.rows.count(); left > 0; --left, at.next(w.output), y += windows) {
      const T* const x =
          band.from + (RowPlace{at.image, at.d, 2 * at.h}.row(w.input) - band.from_rows.first) * width;
      const bool beyond = (left - 1) * windows >= kMostLanes<T>;  // into rows that come later
      each_group<kMostLanes<T>>(
          windows, beyond, MEZZO_GROUP_STEP(o) {
            const T *const upper = x + 2 * o, *const lower = upper + width;
            T sum[kLanes];
            MEZZO_KEEP_LOOP
            for (int j = 0; j < kLanes; ++j) {
              const T first = upper[2 * j] + lower[2 * j], second = upper[2 * j + 1] + lower[2 * j + 1];
              sum[j] = first + second;
            }
            divided.template operator()<kLanes>(sum, y + o);
          });
    }
  }
  MEZZO_ALWAYS_INLINE static void of_columns(const T* x, const RowsUnder& rows, const AveragePooling& pooling,
                                             const T* counts, T factor, T* columns, T* y) {
    const Windows& w = pooling.windows;
    const T* sums = x;
    for (std::int64_t r = 1; r < rows.depths * rows.heights; ++r, sums = columns) {
      const T* const row =
          x + r / rows.heights * rows.depth_distance + r % rows.heights * rows.height_distance;
      each_element(w.input[2], [&](std::int64_t i) { columns[i] = sums[i] + row[i]; });
    }
    if (pooling.adaptive) {
      for (std::int64_t o = 0; o < w.output[2]; ++o) {
        const PlaceRange places = pooling.places(2, o);
        T sum = 0;
        for (std::int64_t i = places.first; i < places.last; ++i) sum += sums[i];
        y[o] = sum / (counts[o] * factor);
      }
      return;
    }
    each_element(w.output[2], [&](std::int64_t o) { y[o] = 0; });
    each_position(
        w, false, [&](PlaceRange windows, std::int64_t first, auto stride) __attribute__((always_inline)) {
          T* const to = y + windows.first;
          each_element(windows.count(), [&](std::int64_t o) { to[o] = to[o] + sums[first + o * stride]; });
        });
    each_element(w.output[2], [&](std::int64_t o) { y[o] = y[o] / (counts[o] * factor); });
  }
  /// The columns of a window and their sum. Both begin with -0: of zeros the compilers make a memset, in
  /// stores too narrow for the loads that follow.
  template <int kLanes>
  MEZZO_ALWAYS_INLINE static void add_up(const T* x, const RowsUnder& rows, std::int64_t place_distance,
                                         std::int64_t places, T* result) {
    T sum[kLanes];
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) sum[j] = -T{0};
    for (std::int64_t i = 0; i < places; ++i) {
      T column[kLanes];
      MEZZO_KEEP_LOOP
      for (int j = 0; j < kLanes; ++j) column[j] = -T{0};
      for (std::int64_t d = 0; d < rows.depths; ++d) {
        for (std::int64_t h = 0; h < rows.heights; ++h) {
          const T* const from = x + i * place_distance + d * rows.depth_distance + h * rows.height_distance;
          MEZZO_KEEP_LOOP
          for (int j = 0; j < kLanes; ++j) column[j] += from[j];
        }
      }
      MEZZO_KEEP_LOOP
      for (int j = 0; j < kLanes; ++j) sum[j] += column[j];
    }
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) result[j] = sum[j];
  }
};

/// For each row the sums of those of the gradient, divided, and for each place the sum of the windows that
/// cover it.
template <class T>
struct GradientOfMean {
  static void run(RowBand<T> band, AveragePooling pooling, const T* counts, T* sums) {
    const Windows::Sizes &in = pooling.windows.input, &out = pooling.windows.output;
    const std::int64_t in_row = in[2] * pooling.inner, out_row = out[2] * pooling.inner;
    RowPlace at = RowPlace::of(band.rows.first, in);
    if (in_pairs(pooling))
      return of_pairs(band, at, pooling.windows, counts[0] * factor_of<T>(pooling, 0, 0));
    for (std::int64_t left = band.rows.count(); left > 0; --left, at.next(in), band.data += in_row) {
      const PlaceRange depths = pooling.covering(0, at.d), heights = pooling.covering(1, at.h);
      bool first = true;
      for (std::int64_t d = depths.first; d < depths.last; ++d) {
        for (std::int64_t h = heights.first; h < heights.last; ++h, first = false) {
          const std::int64_t row = RowPlace{at.image, d, h}.row(out) - band.from_rows.first;
          add_divided(band.from + row * out_row, pooling, counts, factor_of<T>(pooling, d, h), first, sums);
        }
      }
      if (first)  // between windows
        each_element(in_row, [&](std::int64_t i) { band.data[i] = 0; });
      else
        spread(sums, pooling, band.data);
    }
  }

 private:
  MEZZO_ALWAYS_INLINE static void of_pairs(const RowBand<T>& band, RowPlace at, const Windows& w, T divisor) {
    const Divided<T> divided(divisor);
    const std::int64_t width = w.input[2];
    T* dx = band.data;
    for (std::int64_t left = band.rows.count(); left > 0;) {
      const bool covered = at.h / 2 < w.output[1], both = covered && at.h % 2 == 0 && left > 1;
      const T* const grad =
          band.from + (RowPlace{at.image, at.d, at.h / 2}.row(w.output) - band.from_rows.first) * w.output[2];
      T* const lower = both ? dx + width : dx;
      if (covered) {
        each_group<kMostLanes<T>>(
            w.output[2], false, MEZZO_GROUP_STEP(o) {
              T share[kLanes];
              divided.template operator()<kLanes>(grad + o, share);
              T *const a = dx + 2 * o, *const b = lower + 2 * o;
              MEZZO_KEEP_LOOP
              for (int j = 0; j < kLanes; ++j) a[2 * j] = a[2 * j + 1] = share[j] + T{0};
              MEZZO_KEEP_LOOP
              for (int j = 0; j < kLanes; ++j) b[2 * j] = b[2 * j + 1] = share[j] + T{0};
            });
      }
      for (std::int64_t i = covered ? 2 * w.output[2] : 0; i < width; ++i) dx[i] = lower[i] = 0;
      for (int rows = both ? 2 : 1; rows > 0; --rows, --left, dx += width) at.next(w.input);
    }
  }
  /// sums = a row of the gradient, divided; added to what is there unless it is the first.
  MEZZO_ALWAYS_INLINE static void add_divided(const T* grad, const AveragePooling& pooling, const T* counts,
                                              T factor, bool first, T* sums) {
    const std::int64_t inner = pooling.inner, windows = pooling.windows.output[2];
    if (inner == 1) {
      each_element(windows, [&](std::int64_t o) {
        sums[o] = (first ? T{0} : sums[o]) + grad[o] / (counts[o] * factor);
      });
      return;
    }
    for (std::int64_t o = 0; o < windows; ++o, grad += inner, sums += inner) {
      const T divisor = counts[o] * factor;
      each_element(inner, [&](std::int64_t c) { sums[c] = (first ? T{0} : sums[c]) + grad[c] / divisor; });
    }
  }
  MEZZO_ALWAYS_INLINE static void spread(const T* sums, const AveragePooling& pooling, T* dx) {
    const Windows& w = pooling.windows;
    const std::int64_t inner = pooling.inner;
    if (inner > 1) {
      for (std::int64_t i = 0; i < w.input[2]; ++i, dx += inner) {
        const PlaceRange windows = pooling.covering(2, i);
        each_element(inner, [&](std::int64_t c) {
          dx[c] = windows.count() > 0 ? sums[windows.first * inner + c] : T{0};
        });
        for (std::int64_t o = windows.first + 1; o < windows.last; ++o)
          each_element(inner, [&](std::int64_t c) { dx[c] = dx[c] + sums[o * inner + c]; });
      }
      return;
    }
    each_element(w.input[2], [&](std::int64_t i) { dx[i] = 0; });
    if (pooling.adaptive) {
      for (std::int64_t o = 0; o < w.output[2]; ++o) {
        const PlaceRange places = pooling.places(2, o);
        T* const to = dx + places.first;
        each_element(places.count(), [&](std::int64_t i) { to[i] = to[i] + sums[o]; });
      }
      return;
    }
    each_position(
        w, true, [&](PlaceRange windows, std::int64_t first, auto stride) __attribute__((always_inline)) {
          T* const to = dx + first;
          const T* const from = sums + windows.first;
          each_element(windows.count(), [&](std::int64_t o) { to[o * stride] = to[o * stride] + from[o]; });
        });
  }
};

/// Body over all rows of `to`. Its memory is for a row of the input or of the windows.
template <class T, class Body, class Range>
void for_rows(const AveragePooling& pooling, const View& to, const Windows::Sizes& to_sizes, const View& from,
              const Windows::Sizes& from_sizes, const Range& range) {
  const std::int64_t windows = pooling.windows.output[2];
  const RowScratch<T> counts(windows);
  for (std::int64_t o = 0; o < windows; ++o) counts.data()[o] = static_cast<T>(pooling.count(2, o));
  for_bands<T>(as_rows(to, pooling, to_sizes), to_sizes, as_rows(from, pooling, from_sizes), from_sizes,
               false, range, [&](const RowBand<T>& band) {
                 const RowScratch<T> memory(from_sizes[2] * pooling.inner);
                 run_isa<Body>(band, pooling, static_cast<const T*>(counts.data()), memory.data());
               });
}

}  // namespace

void average_pool(const AveragePooling& pooling, const View& y, const View& x) {
  dispatch_real(promote(compute_dtype(x.dtype), compute_dtype(y.dtype)), [&]<class T>(TypeTag<T>) {
    for_rows<T, MeanOfWindows<T>>(pooling, y, pooling.windows.output, x, pooling.windows.input,
                                  [&](std::size_t d, std::int64_t o) { return pooling.places(d, o); });
  });
}

void average_pool_backward(const AveragePooling& pooling, const View& dx, const View& grad) {
  dispatch_real(promote(compute_dtype(dx.dtype), compute_dtype(grad.dtype)), [&]<class T>(TypeTag<T>) {
    for_rows<T, GradientOfMean<T>>(pooling, dx, pooling.windows.input, grad, pooling.windows.output,
                                   [&](std::size_t d, std::int64_t i) { return pooling.covering(d, i); });
  });
}

}  // namespace mezzo::kernels::cpu
