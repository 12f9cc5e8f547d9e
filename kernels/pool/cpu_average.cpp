// Poolings by means on the CPU. A window's sum is that of its columns: rows of the input are added up first,
// in vectors as long as they are, and then the columns of each window. The gradient goes the other way round.
#include "mezzo/kernels/cpu/multiversion.h"
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

}  // namespace

void average_pool(const AveragePooling& pooling, const View& y, const View& x) {
  if (compute_dtype(x.dtype) == DType::f64 || compute_dtype(y.dtype) == DType::f64)
    return average_pool_as<double>(pooling, y, x);
  average_pool_as<float>(pooling, y, x);
}

void average_pool_backward(const AveragePooling& pooling, const View& dx, const View& grad) {
  if (compute_dtype(dx.dtype) == DType::f64 || compute_dtype(grad.dtype) == DType::f64)
    return average_pool_backward_as<double>(pooling, dx, grad);
  average_pool_backward_as<float>(pooling, dx, grad);
}

}  // namespace mezzo::kernels::cpu
