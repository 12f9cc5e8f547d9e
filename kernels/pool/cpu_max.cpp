// Poolings by the largest element on the CPU. Windows over images without dilation are taken in registers
// (cpu_max_planes.h). The others compare whole rows: a row of results so far with a row of the input, in the
// order in which a window is read. The gradient adds each element of `grad` where its index says, image by
// image: no two threads have one image's channel, and the order is that of the windows.
#include <algorithm>
#include <atomic>
#include <limits>
#include <type_traits>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/pool/cpu_max_planes.h"
#include "mezzo/kernels/pool/cpu_rows.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu {

namespace {

using namespace detail;

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
      const std::int64_t begin = o * w.stride, places_on = std::min(w.stride, w.inputs - begin);
      for (std::int64_t r = 0; r < in.rows; ++r) {
        fetch_ahead(in.x + r * in.x_step + begin * w.inner, places_on * w.inner);
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

/// Planes whose windows are taken in vectors, of channels or along a row.
[[nodiscard]] bool fit_planes(const Pooling& pooling) {
  constexpr std::int64_t kWideKernel = 64, kFewWindows = 4;
  const Windows& windows = pooling.windows;
  if (!PlaneWindows::fit(pooling)) return false;
  return pooling.inner > 1 || (windows.kernel[2] <= kWideKernel && windows.output[2] >= kFewWindows);
}

/// Calls body(plane, first, count) for the parts of rows [begin, end) of all planes, of `height` rows each,
/// that lie in one plane.
template <class Body>
void each_plane(std::int64_t begin, std::int64_t end, std::int64_t height, const Body& body) {
  for (std::int64_t r = begin; r < end;) {
    const std::int64_t first = r % height, count = std::min(end - r, height - first);
    body(r / height, first, count);
    r += count;
  }
}

/// max_pool over planes, of f32 or of 16-bit floats in the bits of whole numbers; false where these have NaN
/// among them.
template <class T>
bool max_pool_planes(const Pooling& pooling, T* y, std::int64_t* indices, const T* x, T infinity) {
  const PlaneWindows w(pooling);
  const PhasedRow phased(w);
  const std::int64_t in_row = w.in_w * w.inner, out_row = w.out_w * w.inner;
  const bool by_phase = w.inner == 1 && !w.in_pairs();
  std::atomic<bool> sound = true;
  parallel_for(
      pooling.outer * w.out_h, pool_grain(in_row, w.kernel_h), [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t spread = by_phase ? w.kernel_h * phased.size() + kMostLanes<T> : 0;
        const RowScratch<T> memory(spread);
        std::fill_n(memory.data(), spread, lowest_of(infinity));
        each_plane(begin, end, w.out_h, [&](std::int64_t plane, std::int64_t first, std::int64_t count) {
          const std::int64_t top = w.rows(first).first, done = (plane * w.out_h + first) * out_row;
          const MaxBlock<T> block{
              x + (plane * w.in_h + top) * in_row, top, y + done, indices + done, first, count, infinity};
          const bool right = w.inner > 1 ? run_isa<MaxOfChannels<T>>(block, w)
                             : by_phase  ? run_isa<MaxOfPlane<T>>(block, w, phased, memory.data())
                                         : run_isa<MaxOfPairs<T>>(block, w);
          if (!right) sound = false;
        });
      });
  return sound;
}

/// max_pool over planes of a dtype that there are loops for. False, and nothing that counts done, where there
/// are none, and for 16-bit NaN.
[[nodiscard]] bool max_pool_planes(const Pooling& pooling, const View& y, std::int64_t* indices,
                                   const View& x) {
  if (!fit_planes(pooling)) return false;
  if (x.dtype == DType::f32)
    return max_pool_planes(pooling, static_cast<float*>(y.data), indices, static_cast<const float*>(x.data),
                           std::numeric_limits<float>::infinity());
  if (x.dtype != DType::f16 && x.dtype != DType::bf16) return false;
  const Windows& windows = pooling.windows;
  // Places in a window, and windows in a group, are counted in 16 bits.
  const std::int64_t farthest =
      windows.kernel[1] * windows.input[2] + windows.kernel[2] + kMostLanes<std::int16_t> * windows.stride[2];
  if (farthest >= std::numeric_limits<std::int16_t>::max()) return false;
  const std::int16_t infinity = x.dtype == DType::f16 ? 0x7c00 : 0x7f80;
  return max_pool_planes(pooling, static_cast<std::int16_t*>(y.data), indices,
                         static_cast<const std::int16_t*>(x.data), infinity);
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
  if (pooling.inner == 1) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      const std::int64_t place = indices[o];
      if (static_cast<std::uint64_t>(place) >= places) return o;
      dx[place] += grad[o];
    }
    return -1;
  }
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
  if (max_pool_planes(pooling, y, indices, x)) return;
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
