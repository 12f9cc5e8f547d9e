// Poolings by means on the CPU: one plain loop for means and for their gradient, which is the sum of the
// divided gradients of the windows over a place. Windows over planes that nets have are taken in registers
// (cpu_average_planes.h).
#include <array>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/pool/cpu_average_planes.h"
#include "mezzo/kernels/pool/cpu_images.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu {

namespace {

using namespace detail;

/// For each place of one array of a pooling what it meets in the other, along each dim.
struct Meetings {
  Windows::Sizes here, there;
  std::array<const PlaceRange*, Windows::kDims> ranges;
};
/// Owns the tables of Meetings. `range`: of a dim and a place of it.
class MeetingTables {
 public:
  template <class Range>
  MeetingTables(const Windows::Sizes& here, const Windows::Sizes& there, const Range& range)
      : all_{here, there, {}}, memory_(here[0] + here[1] + here[2]) {
    PlaceRange* next = memory_.data();
    for (std::size_t dim = 0; dim < Windows::kDims; ++dim) {
      all_.ranges[dim] = next;
      for (std::int64_t i = 0; i < here[dim]; ++i) *next++ = range(dim, i);
    }
  }
  [[nodiscard]] const Meetings& operator*() const { return all_; }

 private:
  Meetings all_;
  RowScratch<PlaceRange> memory_;
};

/// The places of each window.
[[nodiscard]] MeetingTables windows_of(const Pooling& pooling) {
  const PoolPlaces<std::int64_t> places(pooling);
  return {pooling.windows.output, pooling.windows.input,
          [&](std::size_t dim, std::int64_t o) { return places.places(dim, o); }};
}

/// The plain loop of means and of their gradient: each of `sums`, a row, is what its place meets in x, by
/// columns (along the last dim) and then over these. Any layout and number of dims. `columns` has room for a
/// row of x.
template <class T>
struct SumsOfColumns {
  static void run(const T* x, T* columns, T* sums, const Meetings* meetings, std::int64_t d, std::int64_t h,
                  std::int64_t inner) {
    const Meetings& m = *meetings;
    const T* const added = add_rows(x, columns, m.ranges[0][d], m.ranges[1][h], m.there, inner);
    if (inner == 1 && added != nullptr && all_meet_one(m.ranges[2], m.here[2])) {
      const T only = T(0) + added[m.ranges[2]->first];
      for (std::int64_t w = 0; w < m.here[2]; ++w) sums[w] = only;
      return;
    }
    for (std::int64_t w = 0; w < m.here[2]; ++w) {
      const PlaceRange widths = added != nullptr ? m.ranges[2][w] : PlaceRange{};
      if (inner == 1) {
        T sum = 0;
        if (widths.count() == 1)
          sum += added[widths.first];
        else
          for (std::int64_t k = widths.first; k < widths.last; ++k) sum += added[k];
        sums[w] = sum;
        continue;
      }
      T* const to = sums + w * inner;
      for (std::int64_t c = 0; c < inner; ++c) to[c] = 0;
      for (std::int64_t k = widths.first; k < widths.last; ++k) add(to, added + k * inner, to, inner);
    }
  }

 private:
  /// The gradient of a pooling of whole rows. Ranges rise, so those between two that are the same are, too.
  MEZZO_ALWAYS_INLINE static bool all_meet_one(const PlaceRange* ranges, std::int64_t count) {
    const PlaceRange last = ranges[count - 1];
    return last.count() == 1 && ranges->first == last.first && ranges->last == last.last;
  }
  MEZZO_ALWAYS_INLINE static void add(const T* a, const T* b, T* sum, std::int64_t n) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
  }
  /// The sum of the rows of x, or the only one itself; nullptr for none.
  MEZZO_ALWAYS_INLINE static const T* add_rows(const T* x, T* columns, PlaceRange depths, PlaceRange heights,
                                               const Windows::Sizes& sizes, std::int64_t inner) {
    const T* sum = nullptr;
    for (std::int64_t d = depths.first; d < depths.last; ++d) {
      for (std::int64_t h = heights.first; h < heights.last; ++h) {
        const T* const row = x + (d * sizes[1] + h) * sizes[2] * inner;
        if (sum != nullptr) add(sum, row, columns, sizes[2] * inner);
        sum = sum != nullptr ? columns : row;
      }
    }
    return sum;
  }
};

/// to = the elements of each window divided by its divisor; both may be one array.
template <class T>
struct DivideWindows {
  static void run(const T* from, T* to, const T* divisors, std::int64_t windows, std::int64_t inner) {
    if (inner == 1) {
      MEZZO_INDEPENDENT_LOOP
      for (std::int64_t o = 0; o < windows; ++o) to[o] = from[o] / divisors[o];
      return;
    }
    for (std::int64_t o = 0; o < windows; ++o, from += inner, to += inner) {
      MEZZO_INDEPENDENT_LOOP
      for (std::int64_t c = 0; c < inner; ++c) to[c] = from[c] / divisors[o];
    }
  }
};

/// What the sums of all windows of an image are divided by.
template <class T>
class Divisors {
 public:
  explicit Divisors(const AveragePooling& pooling) : values_(pooling.windows.outputs()) {
    const PoolPlaces<std::int64_t> places(pooling);
    const PoolCounts<std::int64_t> counts(pooling);
    T* next = values_.data();
    for (std::int64_t d = 0; d < pooling.windows.output[0]; ++d) {
      for (std::int64_t h = 0; h < pooling.windows.output[1]; ++h) {
        for (std::int64_t w = 0; w < pooling.windows.output[2]; ++w) *next++ = counts.of<T>(places, d, h, w);
      }
    }
  }
  [[nodiscard]] const T* data() const { return values_.data(); }

 private:
  RowScratch<T> values_;
};

template <class T>
void average_pool_as(const AveragePooling& pooling, const View& y, const View& x) {
  const Windows& windows = pooling.windows;
  const std::int64_t width = windows.output[2], height = windows.output[0] * windows.output[1];
  const MeetingTables meetings = windows_of(pooling);
  const Divisors<T> divisors(pooling);
  for_images<T>(pooling, y, windows.output, x, windows.inputs(), [&](const T* image, const auto& rows) {
    const RowScratch<T> columns(windows.input[2] * pooling.inner);
    rows([&](T* row, std::int64_t d, std::int64_t h, std::int64_t r) {
      run_isa<SumsOfColumns<T>>(image, columns.data(), row, &*meetings, d, h, pooling.inner);
      run_isa<DivideWindows<T>>(static_cast<const T*>(row), row, divisors.data() + r % height * width, width,
                                pooling.inner);
    });
  });
}

template <class T>
void average_pool_backward_as(const AveragePooling& pooling, const View& dx, const View& grad) {
  const Windows& windows = pooling.windows;
  const PoolPlaces<std::int64_t> places(pooling);
  const MeetingTables meetings(windows.input, windows.output,
                               [&](std::size_t dim, std::int64_t i) { return places.covering(dim, i); });
  const Divisors<T> divisors(pooling);
  for_images<T>(pooling, dx, windows.input, grad, windows.outputs(), [&](const T* image, const auto& rows) {
    const RowScratch<T> shares(windows.outputs() * pooling.inner), columns(windows.output[2] * pooling.inner);
    run_isa<DivideWindows<T>>(image, shares.data(), divisors.data(), windows.outputs(), pooling.inner);
    rows([&](T* row, std::int64_t d, std::int64_t h, std::int64_t /*r*/) {
      run_isa<SumsOfColumns<T>>(static_cast<const T*>(shares.data()), columns.data(), row, &*meetings, d, h,
                                pooling.inner);
    });
  });
}

// --- planes, in f32

/// Elements that are widened at once: 16 KiB of f32.
constexpr std::int64_t kWidened = 4096;

/// average_pool over channels-last planes: some neighbouring windows at a time, whose places stay in the
/// first-level cache from their widening to the rounding of the means.
void average_pool_channels(const AveragePooling& pooling, const View& y, const View& x) {
  const PlaneWindows w(pooling);
  const MeetingTables meetings = windows_of(pooling);
  const PlaceRange* const widths = (*meetings).ranges[2];
  const Divisors<float> divisors(pooling);
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
          for (std::int64_t o = 0; o < w.out_w; o += windows) {
            const std::int64_t count = std::min(windows, w.out_w - o), first = widths[o].first;
            const std::int64_t n = (widths[o + count - 1].last - first) * w.inner;
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
                          in_place ? in_row : n, rows.count(), means, count, widths + o,
                          divisors.data() + h * w.out_w + o, next, in_row * x_size,
                          count * w.stride_w * w.inner * x_size},
                w.inner);
            if (!out_in_place) convert(means, DType::f32, to, y.dtype, count * w.inner);
          }
        }
      });
}

/// What sums are divided by where all windows have as many places.
[[nodiscard]] float divisor_of_all(const AveragePooling& pooling) {
  return PoolCounts<std::int64_t>(pooling).of<float>(PoolPlaces<std::int64_t>(pooling), 0, 0, 0);
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
