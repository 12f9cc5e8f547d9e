// Poolings by the largest element on the CPU. The forward kernel compares whole rows: a row of results so far
// with a row of the input, in the order in which a window is read. The gradient adds each element of `grad`
// where its index says, image by image: no two threads have one image's channel, and the order is that of
// the windows.
#include <atomic>
#include <limits>
#include <type_traits>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/pool/cpu_rows.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu {

namespace {

using namespace detail;

/// The largest so far, and its place. NaN counts as larger than all before it, other NaNs too.
template <class T, class I>
MEZZO_ALWAYS_INLINE void take_larger(T value, I place, T& best, I& at) {
  const T old = best;
  const bool take = (value > old) | (value != value);
  best = take ? value : old;
  at = take ? place : at;
}

/// What every number but itself is larger than.
template <class T>
inline constexpr T kLeast = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                                 : std::numeric_limits<T>::lowest();

/// Rows of the input under one row of windows, at even distances; `place` is that of the first element.
template <class T, class I>
struct MaxRows {
  const T* x;
  std::int64_t x_step;
  I place, place_step;
  std::int64_t rows;
  bool first;  ///< whether nothing came before them
};

/// best, at go on with rows of the input, or begin with them if they are the first (by position they hold
/// something always, see start_row). Places have the width of T where they fit, so that one vector mask
/// serves both.
template <class T, class I>
struct MaxOfRows {
  static void run(MaxRows<T, I> in, T* best, I* at, RowWindows w) {
    if (!w.by_position && w.inner > 1) return by_channel(in, best, at, w);
    for (std::int64_t r = 0; r < in.rows; ++r) {
      const T* const x = in.x + r * in.x_step;
      const I row = in.place + static_cast<I>(r * in.place_step);
      if (w.by_position)
        with_stride(w.stride, [&](auto stride) { by_position(x, row, best, at, w, stride); });
      else
        by_window(x, row, in.first && r == 0, best, at, w);
    }
  }

 private:
  template <class Stride>
  MEZZO_ALWAYS_INLINE static void by_position(const T* x, I row, T* best, I* at, const RowWindows& w,
                                              Stride stride) {
    for (std::int64_t k = 0; k < w.kernel; ++k) {
      const PlaceRange windows = w.windows[k];
      if (windows.count() <= 0) continue;
      const std::int64_t first = w.first_place(k);
      const T* const from = x + first;
      T* const to = best + windows.first;
      I* const places = at + windows.first;
      const I place = row + static_cast<I>(first);
      each_element(windows.count(), [&](std::int64_t o) {
        take_larger(from[o * stride], static_cast<I>(place + static_cast<I>(o * stride)), to[o], places[o]);
      });
    }
  }
  MEZZO_ALWAYS_INLINE static void by_window(const T* x, I row, bool first, T* best, I* at,
                                            const RowWindows& w) {
    for (std::int64_t o = 0; o < w.outputs; ++o) {
      const PlaceRange range = w.places[o];
      T largest = first ? kLeast<T> : best[o];
      I place = first ? row + static_cast<I>(range.first) : at[o];
      for (std::int64_t i = range.first; i < range.last; i += w.dilation)
        take_larger(x[i], static_cast<I>(row + static_cast<I>(i)), largest, place);
      best[o] = largest;
      at[o] = place;
    }
  }
  MEZZO_ALWAYS_INLINE static void by_channel(const MaxRows<T, I>& in, T* best, I* at, const RowWindows& w) {
    const std::int64_t step = w.dilation;
    for (std::int64_t o = 0; o < w.outputs; ++o) {
      T* const to = best + o * w.inner;
      I* const places = at + o * w.inner;
      const PlaceRange range = w.places[o];
      bool fresh = in.first;
      for (std::int64_t r = 0; r < in.rows; ++r) {
        fetch_ahead(in.x + r * in.x_step + o * w.stride * w.inner, w.stride * w.inner);
        // Three places at a time: a third of the traffic in results so far.
        for (std::int64_t i = range.first; i < range.last; i += 3 * step, fresh = false) {
          const T* const from = in.x + r * in.x_step + i * w.inner;
          const I place = in.place + static_cast<I>(r * in.place_step) + static_cast<I>(i);
          if (i + 2 * step < range.last)
            take_places<3>(from, place, step, fresh, to, places, w.inner);
          else if (i + step < range.last)
            take_places<2>(from, place, step, fresh, to, places, w.inner);
          else
            take_places<1>(from, place, step, fresh, to, places, w.inner);
        }
      }
    }
  }
  /// The channels of a window go on, or begin, with those of kCount places.
  template <int kCount>
  MEZZO_ALWAYS_INLINE static void take_places(const T* x, I place, std::int64_t step, bool fresh, T* best,
                                              I* at, std::int64_t channels) {
    each_element(channels, [&](std::int64_t c) {
      T largest = fresh ? kLeast<T> : best[c];
      I found = fresh ? place : at[c];
      for (int k = 0; k < kCount; ++k)
        take_larger(x[k * step * channels + c], static_cast<I>(place + static_cast<I>(k * step)), largest,
                    found);
      best[c] = largest;
      at[c] = found;
    });
  }
};

/// The start of the comparison, for windows by position: the least value, at the first place of each window.
/// `row` is the number of the first place of the row.
template <class T, class I>
void start_row(T* best, I* at, std::int64_t row, const Pooling& pooling) {
  const std::int64_t outputs = pooling.windows.output[2];
  std::fill_n(best, outputs, kLeast<T>);
  for (std::int64_t o = 0; o < outputs; ++o) at[o] = static_cast<I>(row + pooling.places(2, o).first);
}

template <class T, class I>
void max_pool_as(const Pooling& pooling, const View& y, std::int64_t* indices, const View& x) {
  const Windows& windows = pooling.windows;
  const RowTables tables(pooling);
  const RowWindows& w = *tables;
  const RowOperand from = as_rows(x, pooling, windows.input), to = as_rows(y, pooling, windows.output);
  const std::int64_t depth_step = pooling.adaptive ? 1 : windows.dilation[0];
  const std::int64_t height_step = pooling.adaptive ? 1 : windows.dilation[1];
  const std::int64_t grain =
      pool_grain(from.length(), pooling.places(0, 0).count() * pooling.places(1, 0).count());
  parallel_for(to.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    const RowScratch<T> widened(from.in_place<T>() ? 0 : from.length());
    const RowScratch<T> results(to.in_place<T>() ? 0 : to.length());
    const RowScratch<I> at(to.length());
    for (std::int64_t r = begin; r < end; ++r) {
      const RowPlace place = row_place(r, windows.output);
      const PlaceRange depths = pooling.places(0, place.d), heights = pooling.places(1, place.h);
      T* const best = to.target<T>(r, results.data()).data;
      const std::int64_t count = (heights.count() - 1) / height_step + 1;
      const std::int64_t together = from.in_place<T>() ? count : 1;
      bool first = true;
      for (std::int64_t d = depths.first; d < depths.last; d += depth_step) {
        for (std::int64_t h = 0; h < count; h += together, first = false) {
          const std::int64_t height = heights.first + h * height_step;
          const std::int64_t start = (d * windows.input[1] + height) * windows.input[2];
          if (first && w.by_position) start_row(best, at.data(), start, pooling);
          const std::int64_t index = row_index({place.image, d, height}, windows.input);
          const MaxRows<T, I> rows{from.read<T>(index, 1, widened.data()).data,
                                   height_step * from.length(),
                                   static_cast<I>(start),
                                   static_cast<I>(height_step * windows.input[2]),
                                   together,
                                   first};
          run_isa<MaxOfRows<T, I>>(rows, best, at.data(), w);
        }
      }
      to.finish(r, 1, results.data());
      convert(at.data(), dtype_of<I>, indices + r * to.length(), DType::i64, to.length());
    }
  });
}

/// `width` of the `inner` channels of all places = 0.
template <class T>
void clear(T* dx, std::int64_t inner, std::int64_t width, std::int64_t places) {
  if (width == inner) {
    std::fill_n(dx, places * inner, T{0});
    return;
  }
  for (std::int64_t i = 0; i < places; ++i) std::fill_n(dx + i * inner, width, T{0});
}

/// Adds `width` channels of grad to dx where the indices say; all three point to the first of them. Returns
/// the element whose index is not a place, or -1.
template <class T>
std::int64_t add_at(T* dx, const T* grad, const std::int64_t* indices, const Pooling& pooling,
                    std::int64_t width) {
  const auto places = static_cast<std::uint64_t>(pooling.windows.inputs());
  const std::int64_t outputs = pooling.windows.outputs();
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t place = indices[o * pooling.inner + c];
      if (static_cast<std::uint64_t>(place) >= places) return o * pooling.inner + c;
      dx[place * pooling.inner + c] += grad[o * pooling.inner + c];
    }
  }
  return -1;
}

/// `found` = the smaller of both, where -1 is none.
void keep_first(std::atomic<std::int64_t>& found, std::int64_t position) {
  std::int64_t known = found.load();
  while ((known < 0 || position < known) && !found.compare_exchange_weak(known, position)) {
  }
}

template <class T>
std::int64_t max_pool_backward_as(const Pooling& pooling, const View& dx, const View& grad,
                                  const std::int64_t* indices) {
  constexpr std::int64_t kChannels = 64;  // of a chunk: a few images may have many
  const std::int64_t inner = pooling.inner;
  const std::int64_t inputs = pooling.windows.inputs() * inner, outputs = pooling.windows.outputs() * inner;
  const RowOperand to(View{dx.data, dx.dtype, {pooling.outer, inputs}, {inputs, 1}}, 1);
  const RowOperand from(View{grad.data, grad.dtype, {pooling.outer, outputs}, {outputs, 1}}, 1);
  const bool in_place = to.in_place<T>() && from.in_place<T>();
  const std::int64_t width = in_place ? std::min(inner, kChannels) : inner;
  const std::int64_t parts = (inner + width - 1) / width;
  std::atomic<std::int64_t> wrong = -1;
  parallel_for(pooling.outer * parts, pool_grain(pooling.windows.inputs() * width, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 const RowScratch<T> sums(to.in_place<T>() ? 0 : inputs);
                 const RowScratch<T> widened(from.in_place<T>() ? 0 : outputs);
                 for (std::int64_t p = begin; p < end; ++p) {
                   const std::int64_t image = p / parts, channel = p % parts * width;
                   const std::int64_t count = std::min(width, inner - channel);
                   T* const total = to.target<T>(image, sums.data()).data + channel;
                   const T* const g = from.read<T>(image, 1, widened.data()).data + channel;
                   clear(total, inner, count, pooling.windows.inputs());
                   const std::int64_t first = image * outputs + channel;
                   const std::int64_t found = add_at(total, g, indices + first, pooling, count);
                   if (found >= 0) keep_first(wrong, first + found);
                   to.finish(image, 1, sums.data());
                 }
               });
  return wrong;
}

}  // namespace

void max_pool(const Pooling& pooling, const View& y, std::int64_t* indices, const View& x) {
  dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
    const bool narrow = pooling.windows.inputs() <= std::numeric_limits<std::int32_t>::max();
    if constexpr (std::is_same_v<T, float>) {
      if (narrow) return max_pool_as<T, std::int32_t>(pooling, y, indices, x);
    }
    max_pool_as<T, std::int64_t>(pooling, y, indices, x);
  });
}

std::int64_t max_pool_backward(const Pooling& pooling, const View& dx, const View& grad,
                               const std::int64_t* indices) {
  const DType compute = promote(compute_dtype(dx.dtype), compute_dtype(grad.dtype));
  if (compute == DType::f64) return max_pool_backward_as<double>(pooling, dx, grad, indices);
  return max_pool_backward_as<float>(pooling, dx, grad, indices);
}

}  // namespace mezzo::kernels::cpu
