// Poolings by means on the CPU. A window's sum is that of its columns: rows of the input are added up first,
// in vectors as long as they are, and then the columns of each window. The gradient goes the other way round.
// Channels-last images have windows in registers (cpu_average_planes.h).
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/pool/cpu_average_planes.h"
#include "mezzo/kernels/pool/cpu_rows.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu {

namespace {

using namespace detail;

template <class T>
struct AddRows {
  static void run(const T* a, const T* b, T* sum, std::int64_t n) {
    constexpr std::int64_t kSpan = 256;
    for (std::int64_t begin = 0; begin < n; begin += kSpan) {
      const std::int64_t count = std::min(kSpan, n - begin);
      fetch_ahead(a + begin, count);
      fetch_ahead(b + begin, count);
      each_element(count, [&](std::int64_t i) { sum[begin + i] = a[begin + i] + b[begin + i]; });
    }
  }
};

/// y = the sums of the columns of each window, divided by its count and `factor`.
template <class T>
struct AverageOfColumns {
  static void run(const T* columns, const T* counts, T factor, T* y, RowWindows w) {
    if (w.by_position) {
      with_stride(w.stride, [&](auto stride) { by_position(columns, y, w, stride); });
      each_element(w.outputs, [&](std::int64_t o) { y[o] = y[o] / (counts[o] * factor); });
      return;
    }
    for (std::int64_t o = 0; o < w.outputs; ++o) {
      const T divisor = counts[o] * factor;
      const PlaceRange places = w.places[o];
      if (w.inner == 1) {
        T sum = 0;
        for (std::int64_t i = places.first; i < places.last; ++i) sum += columns[i];
        y[o] = sum / divisor;
        continue;
      }
      T* const to = y + o * w.inner;
      each_element(w.inner, [&](std::int64_t c) { to[c] = 0; });
      for (std::int64_t i = places.first; i < places.last; ++i) {
        const T* const from = columns + i * w.inner;
        each_element(w.inner, [&](std::int64_t c) { to[c] = to[c] + from[c]; });
      }
      each_element(w.inner, [&](std::int64_t c) { to[c] = to[c] / divisor; });
    }
  }

 private:
  template <class Stride>
  MEZZO_ALWAYS_INLINE static void by_position(const T* columns, T* y, const RowWindows& w, Stride stride) {
    each_element(w.outputs, [&](std::int64_t o) { y[o] = 0; });
    for (std::int64_t k = 0; k < w.kernel; ++k) {
      const PlaceRange windows = w.windows[k];
      if (windows.count() <= 0) continue;
      const T* const from = columns + w.first_place(k);
      T* const to = y + windows.first;
      each_element(windows.count(), [&](std::int64_t o) { to[o] = to[o] + from[o * stride]; });
    }
  }
};

/// sum = a row of the gradient, divided; added to what is there unless it is the first.
template <class T>
struct AddDivided {
  static void run(const T* grad, const T* counts, T factor, T* sum, bool first, RowWindows w) {
    if (w.inner == 1) {
      each_element(w.outputs, [&](std::int64_t o) {
        sum[o] = (first ? T{0} : sum[o]) + grad[o] / (counts[o] * factor);
      });
      return;
    }
    for (std::int64_t o = 0; o < w.outputs; ++o) {
      const T divisor = counts[o] * factor;
      const T* const from = grad + o * w.inner;
      T* const to = sum + o * w.inner;
      each_element(w.inner, [&](std::int64_t c) { to[c] = (first ? T{0} : to[c]) + from[c] / divisor; });
    }
  }
};

/// dx = for each place the sum over the windows that cover it.
template <class T>
struct SpreadWindows {
  static void run(const T* sums, T* dx, RowWindows w) {
    if (w.by_position) {
      with_stride(w.stride, [&](auto stride) { by_position(sums, dx, w, stride); });
      return;
    }
    for (std::int64_t i = 0; i < w.inputs; ++i) {
      T* const to = dx + i * w.inner;
      const PlaceRange windows = w.covering[i];
      each_element(w.inner, [&](std::int64_t c) { to[c] = 0; });
      for (std::int64_t o = windows.first; o < windows.last; ++o) {
        const T* const from = sums + o * w.inner;
        each_element(w.inner, [&](std::int64_t c) { to[c] = to[c] + from[c]; });
      }
    }
  }

 private:
  /// From the last position on, so that each place meets its windows in their order.
  template <class Stride>
  MEZZO_ALWAYS_INLINE static void by_position(const T* sums, T* dx, const RowWindows& w, Stride stride) {
    each_element(w.inputs, [&](std::int64_t i) { dx[i] = 0; });
    for (std::int64_t k = w.kernel - 1; k >= 0; --k) {
      const PlaceRange windows = w.windows[k];
      if (windows.count() <= 0) continue;
      T* const to = dx + w.first_place(k);
      const T* const from = sums + windows.first;
      each_element(windows.count(), [&](std::int64_t o) { to[o * stride] = to[o * stride] + from[o]; });
    }
  }
};

/// The counts of the windows along a row.
template <class T>
class Counts {
 public:
  explicit Counts(const AveragePooling& pooling) : values_(pooling.windows.output[2]) {
    for (std::int64_t o = 0; o < pooling.windows.output[2]; ++o)
      values_.data()[o] = static_cast<T>(pooling.count(2, o));
  }
  [[nodiscard]] const T* data() const { return values_.data(); }

 private:
  RowScratch<T> values_;
};

/// What the sums of row (d, h) of the results are divided by besides the counts along the row.
template <class T>
[[nodiscard]] T factor_of(const AveragePooling& pooling, std::int64_t d, std::int64_t h) {
  return static_cast<T>(pooling.count(0, d) * pooling.count(1, h) * pooling.factor());
}

template <class T>
void average_pool_as(const AveragePooling& pooling, const View& y, const View& x) {
  const Windows& windows = pooling.windows;
  const RowTables tables(pooling);
  const Counts<T> counts(pooling);
  const RowOperand from = as_rows(x, pooling, windows.input), to = as_rows(y, pooling, windows.output);
  const std::int64_t grain =
      pool_grain(from.length(), pooling.places(0, 0).count() * pooling.places(1, 0).count());
  parallel_for(to.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    const RowScratch<T> widened(from.in_place<T>() ? 0 : from.length()), columns(from.length());
    const RowScratch<T> results(to.in_place<T>() ? 0 : to.length());
    for (std::int64_t r = begin; r < end; ++r) {
      const RowPlace place = row_place(r, windows.output);
      const PlaceRange depths = pooling.places(0, place.d), heights = pooling.places(1, place.h);
      const T* sum = nullptr;
      for (std::int64_t d = depths.first; d < depths.last; ++d) {
        for (std::int64_t h = heights.first; h < heights.last; ++h) {
          T* const buffer = sum == nullptr ? columns.data() : widened.data();
          const T* const row = from.read<T>(row_index({place.image, d, h}, windows.input), 1, buffer).data;
          if (sum != nullptr) run_isa<AddRows<T>>(sum, row, columns.data(), from.length());
          sum = sum == nullptr ? row : columns.data();
        }
      }
      T* const result = to.target<T>(r, results.data()).data;
      run_isa<AverageOfColumns<T>>(sum, counts.data(), factor_of<T>(pooling, place.d, place.h), result,
                                   *tables);
      to.finish(r, 1, results.data());
    }
  });
}

template <class T>
void average_pool_backward_as(const AveragePooling& pooling, const View& dx, const View& grad) {
  const Windows& windows = pooling.windows;
  const RowTables tables(pooling);
  const Counts<T> counts(pooling);
  const RowOperand from = as_rows(grad, pooling, windows.output), to = as_rows(dx, pooling, windows.input);
  parallel_for(to.rows(), pool_grain(to.length(), 2), [&](std::int64_t begin, std::int64_t end) {
    const RowScratch<T> widened(from.in_place<T>() ? 0 : from.length()), sums(from.length());
    const RowScratch<T> results(to.in_place<T>() ? 0 : to.length());
    for (std::int64_t r = begin; r < end; ++r) {
      const RowPlace place = row_place(r, windows.input);
      const PlaceRange depths = pooling.covering(0, place.d), heights = pooling.covering(1, place.h);
      T* const result = to.target<T>(r, results.data()).data;
      bool first = true;
      for (std::int64_t d = depths.first; d < depths.last; ++d) {
        for (std::int64_t h = heights.first; h < heights.last; ++h) {
          const std::int64_t index = row_index({place.image, d, h}, windows.output);
          run_isa<AddDivided<T>>(from.read<T>(index, 1, widened.data()).data, counts.data(),
                                 factor_of<T>(pooling, d, h), sums.data(), first, *tables);
          first = false;
        }
      }
      if (first)  // rows between windows
        std::fill_n(result, to.length(), T{0});
      else
        run_isa<SpreadWindows<T>>(static_cast<const T*>(sums.data()), result, *tables);
      to.finish(r, 1, results.data());
    }
  });
}

// --- planes, in f32

/// Elements that are widened at once: 16 KiB of f32.
constexpr std::int64_t kWidened = 4096;

/// average_pool over channels-last planes: some neighbouring windows at a time, whose places stay in the
/// first-level cache from their widening to the rounding of the means.
void average_pool_channels(const AveragePooling& pooling, const View& y, const View& x) {
  const PlaneWindows w(pooling);
  const RowTables tables(pooling);
  const Counts<float> counts(pooling);
  const std::int64_t in_row = w.in_w * w.inner, out_row = w.out_w * w.inner;
  const std::int64_t x_size = size_of(x.dtype), y_size = size_of(y.dtype);
  const bool in_place = x.dtype == DType::f32, out_in_place = y.dtype == DType::f32;
  const std::int64_t windows =
      std::clamp<std::int64_t>(kWidened / (w.kernel_h * w.stride_w * w.inner), 1, w.out_w);
  const std::int64_t places = std::min((windows - 1) * w.stride_w + w.kernel_w, w.in_w);
  const auto* const input = static_cast<const std::byte*>(x.data);
  auto* const output = static_cast<std::byte*>(y.data);
  parallel_for(
      pooling.outer * w.out_h, pool_grain(in_row, w.kernel_h), [&](std::int64_t begin, std::int64_t end) {
        const RowScratch<float> widened(in_place ? 0 : w.kernel_h * places * w.inner);
        const RowScratch<float> results(out_in_place ? 0 : windows * w.inner);
        for (std::int64_t r = begin; r < end; ++r) {
          const std::int64_t plane = r / w.out_h, h = r % w.out_h;
          const PlaceRange rows = w.rows(h);
          const std::byte* const from = input + (plane * w.in_h + rows.first) * in_row * x_size;
          const float factor = factor_of<float>(pooling, 0, h);
          for (std::int64_t o = 0; o < w.out_w; o += windows) {
            const std::int64_t count = std::min(windows, w.out_w - o), first = w.places(o).first;
            const std::int64_t n = (w.places(o + count - 1).last - first) * w.inner;
            const std::byte* const start = from + first * w.inner * x_size;
            for (std::int64_t k = 0; !in_place && k < rows.count(); ++k)
              convert(start + k * in_row * x_size, x.dtype, widened.data() + k * n, DType::f32, n);
            std::byte* const to = output + (r * out_row + o * w.inner) * y_size;
            float* const means = out_in_place ? reinterpret_cast<float*>(to) : results.data();
            // Under the windows that come next, in this row or in the next one.
            const std::byte* const next = o + count < w.out_w ? start + count * w.stride_w * w.inner * x_size
                                                              : from + w.stride_h * in_row * x_size;
            run_isa<MeanOfChannels>(
                MeanBlock{in_place ? reinterpret_cast<const float*>(start) : widened.data(), first,
                          in_place ? in_row : n, rows.count(), means, o, count, counts.data(), factor, next,
                          in_row * x_size, count * w.stride_w * w.inner * x_size},
                *tables);
            if (!out_in_place) convert(means, DType::f32, to, y.dtype, count * w.inner);
          }
        }
      });
}

/// What sums are divided by where all windows have as many places.
[[nodiscard]] float divisor_of_all(const AveragePooling& pooling) {
  return static_cast<float>(pooling.count(2, 0)) * factor_of<float>(pooling, 0, 0);
}
/// Row-major planes with windows of 2 by 2; all() where these are all of the input.
[[nodiscard]] bool in_pairs(const AveragePooling& pooling) {
  return pooling.inner == 1 && PlaneWindows::fit(pooling) && PlaneWindows(pooling).in_pairs();
}
[[nodiscard]] bool all_in_pairs(const AveragePooling& pooling) {
  return in_pairs(pooling) && PlaneWindows(pooling).all_in_pairs();
}

/// average_pool of f32.
void average_pool_f32(const AveragePooling& pooling, const View& y, const View& x) {
  if (!in_pairs(pooling)) return average_pool_as<float>(pooling, y, x);
  const PlaneWindows w(pooling);
  const auto* const from = static_cast<const float*>(x.data);
  auto* const to = static_cast<float*>(y.data);
  const float divisor = divisor_of_all(pooling);
  // Planes without a row left over are one tall plane.
  const bool tall = 2 * w.out_h == w.in_h;
  const std::int64_t parts = tall ? pooling.outer * w.out_h : pooling.outer, rows = tall ? 1 : w.out_h;
  const std::int64_t in_part = tall ? 2 * w.in_w : w.in_w * w.in_h, out_part = rows * w.out_w;
  parallel_for(parts, pool_grain(in_part, 1), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t step = tall ? end - begin : 1;
    for (std::int64_t part = begin; part < end; part += step)
      run_isa<MeanOfPairs>(from + part * in_part, to + part * out_part, step * rows, w.in_w, w.out_w,
                           divisor);
  });
}

/// average_pool_backward of f32.
void average_pool_backward_f32(const AveragePooling& pooling, const View& dx, const View& grad) {
  if (!all_in_pairs(pooling)) return average_pool_backward_as<float>(pooling, dx, grad);
  const PlaneWindows w(pooling);
  const auto* const from = static_cast<const float*>(grad.data);
  auto* const to = static_cast<float*>(dx.data);
  const float divisor = divisor_of_all(pooling);
  parallel_for(pooling.outer * w.out_h, pool_grain(2 * w.in_w, 1), [&](std::int64_t begin, std::int64_t end) {
    run_isa<MeanGradientOfPairs>(from + begin * w.out_w, to + begin * 2 * w.in_w, end - begin, w.out_w,
                                 divisor);
  });
}

/// Whether arrays of other dtypes are worth widening plane by plane: a row at a time takes several calls for
/// a few elements.
[[nodiscard]] bool widens_planes(const AveragePooling& pooling, const View& a, const View& b) {
  constexpr std::int64_t kLargestPlane = 65536;
  return pooling.inner == 1 && (a.dtype != DType::f32 || b.dtype != DType::f32) &&
         pooling.windows.inputs() <= kLargestPlane && pooling.windows.outputs() <= kLargestPlane;
}

/// run(pooling, y, x) for some row-major planes at a time, in f32; x has `inputs` elements in a plane, and y
/// `outputs`.
template <class Run>
void for_widened_planes(const AveragePooling& pooling, const View& y, std::int64_t outputs, const View& x,
                        std::int64_t inputs, const Run& run) {
  const std::int64_t most = std::max<std::int64_t>(kWidened / std::max(inputs, outputs), 1);
  const auto dense = [](void* data, std::int64_t planes, std::int64_t size) {
    return View{data, DType::f32, {planes, size}, {size, 1}};
  };
  const std::int64_t grain = (pool_grain(std::max(inputs, outputs), 1) + most - 1) / most * most;
  parallel_for(pooling.outer, grain, [&](std::int64_t begin, std::int64_t end) {
    const RowScratch<float> widened(most * inputs), results(most * outputs);
    for (std::int64_t plane = begin; plane < end; plane += most) {
      AveragePooling some = pooling;
      some.outer = std::min(most, end - plane);
      const auto* const from = static_cast<const std::byte*>(x.data) + plane * inputs * size_of(x.dtype);
      auto* const to = static_cast<std::byte*>(y.data) + plane * outputs * size_of(y.dtype);
      convert(from, x.dtype, widened.data(), DType::f32, some.outer * inputs);
      run(some, dense(results.data(), some.outer, outputs), dense(widened.data(), some.outer, inputs));
      convert(results.data(), DType::f32, to, y.dtype, some.outer * outputs);
    }
  });
}

}  // namespace

void average_pool(const AveragePooling& pooling, const View& y, const View& x) {
  if (compute_dtype(x.dtype) == DType::f64 || compute_dtype(y.dtype) == DType::f64)
    return average_pool_as<double>(pooling, y, x);
  if (pooling.inner > 1 && PlaneWindows::fit(pooling)) return average_pool_channels(pooling, y, x);
  if (widens_planes(pooling, y, x)) {
    for_widened_planes(pooling, y, pooling.windows.outputs(), x, pooling.windows.inputs(), average_pool_f32);
    return;
  }
  if (x.dtype == DType::f32 && y.dtype == DType::f32) return average_pool_f32(pooling, y, x);
  average_pool_as<float>(pooling, y, x);
}

void average_pool_backward(const AveragePooling& pooling, const View& dx, const View& grad) {
  if (compute_dtype(dx.dtype) == DType::f64 || compute_dtype(grad.dtype) == DType::f64)
    return average_pool_backward_as<double>(pooling, dx, grad);
  if (widens_planes(pooling, dx, grad)) {
    for_widened_planes(pooling, dx, pooling.windows.inputs(), grad, pooling.windows.outputs(),
                       average_pool_backward_f32);
    return;
  }
  if (dx.dtype == DType::f32 && grad.dtype == DType::f32) return average_pool_backward_f32(pooling, dx, grad);
  average_pool_backward_as<float>(pooling, dx, grad);
}

}  // namespace mezzo::kernels::cpu
