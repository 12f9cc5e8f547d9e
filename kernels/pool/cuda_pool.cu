// CUDA kernels of poolings, and where their elements lie: the windows of kernels/pool/pool.h counted in a
// type Index: std::int32_t where has_narrow_places says so, whose divisions are products
// (kernels/math/quotient.h), else std::int64_t.
//
// A thread has an element of the result, in the order of memory, so neighbouring
// threads write neighbours in either layout. Gradients gather: a thread adds up what the windows over its
// place have for it, in a fixed order and without atomics.
//
// Bounds: an element's number is below the array's size, places and windows come as ranges that lie within
// the input and the output (PoolPlaces), and indices are compared only, never used to read.
#include "mezzo/kernels/pool/pool.h"

#include <cuda_runtime.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/math/quotient.h"

namespace mezzo::kernels::cuda {

namespace {

/// [first, last); empty where last <= first.
template <class Index>
struct PoolRange {
  Index first, last;
};

/// An element of a dense array of images, by its places.
template <class Index>
struct PoolPlace {
  Index image, at[Windows::kDims], channel;
};

/// The sizes of an array of images, and where its elements lie.
template <class Index>
struct PoolGrid {
  PoolGrid(const Windows::Sizes& sizes, std::int64_t inner)
      : channels(static_cast<Index>(inner)), by_channels(inner) {
    for (std::size_t d = 0; d < Windows::kDims; ++d) {
      size[d] = static_cast<Index>(sizes[d]);
      by_size[d] = DivisorOf<Index>(sizes[d]);
    }
  }
  /// The element whose number, in the order of memory, is `e`.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE PoolPlace<Index> place(Index e) const {
    const Index flat = by_channels(e), row = by_size[2](flat), plane = by_size[1](row),
                image = by_size[0](plane);
    return {
        image, {plane - image * size[0], row - plane * size[1], flat - row * size[2]}, e - flat * channels};
  }
  /// Where row (d, h) of an image begins, counted in places of all images.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Index row(Index image, Index d, Index h) const {
    return ((image * size[0] + d) * size[1] + h) * size[2];
  }
  /// The number of a channel's element at a place of all images.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Index element(Index place, Index channel) const {
    return place * channels + channel;
  }

  Index size[Windows::kDims], channels;
  DivisorOf<Index> by_size[Windows::kDims], by_channels;
};

/// A pooling as kernels take it: input and output, and which places and windows meet.
template <class Index>
struct PoolPlaces {
  explicit PoolPlaces(const Pooling& pooling)
      : input(pooling.windows.input, pooling.inner),
        output(pooling.windows.output, pooling.inner),
        adaptive(pooling.adaptive) {
    const Windows& w = pooling.windows;
    for (std::size_t d = 0; d < Windows::kDims; ++d) {
      stride[d] = static_cast<Index>(w.stride[d]), padding[d] = static_cast<Index>(w.padding[d]);
      reach[d] = static_cast<Index>((w.kernel[d] - 1) * w.dilation[d]);
      step[d] = static_cast<Index>(adaptive ? 1 : w.dilation[d]);
      by_stride[d] = DivisorOf<Index>(w.stride[d]), by_step[d] = DivisorOf<Index>(step[d]);
    }
  }

  /// As Pooling::places: those of window o, `step` apart.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE PoolRange<Index> places(std::size_t d, Index o) const {
    const Index in = input.size[d], out = output.size[d];
    if (adaptive) return {output.by_size[d](o * in), output.by_size[d]((o + 1) * in + out - 1)};
    const Index start = o * stride[d] - padding[d], end = start + reach[d] + 1;
    return {start < 0 ? start + by_step[d](step[d] - 1 - start) * step[d] : start, end < in ? end : in};
  }
  /// As Pooling::covering: the windows that cover place i.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE PoolRange<Index> covering(std::size_t d, Index i) const {
    const Index in = input.size[d], out = output.size[d];
    if (adaptive) return {input.by_size[d](i * out), input.by_size[d]((i + 1) * out + in - 1)};
    const Index newest = by_stride[d](i + padding[d]) + 1, beyond = i + padding[d] - reach[d];
    return {beyond <= 0 ? 0 : by_stride[d](beyond + stride[d] - 1), newest < out ? newest : out};
  }

  PoolGrid<Index> input, output;
  bool adaptive;
  Index stride[Windows::kDims], padding[Windows::kDims];
  Index reach[Windows::kDims];  ///< from the first place of a window to its last
  Index step[Windows::kDims];   ///< between neighbouring places of a window

 private:
  DivisorOf<Index> by_stride[Windows::kDims], by_step[Windows::kDims];
};

/// Whether std::int32_t counts the elements of both arrays, and positions with what padding lies around them.
[[nodiscard]] inline bool has_narrow_places(const Pooling& pooling) {
  constexpr double kMost = 2147483647;
  const Windows& w = pooling.windows;
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };  // which cannot overflow
  const double images = number(pooling.outer) * number(pooling.inner);
  bool fits = images * number(std::max(w.inputs(), w.outputs())) <= kMost;
  for (std::size_t d = 0; d < Windows::kDims; ++d) {
    const double in = number(w.input[d]), out = number(w.output[d]);
    if (pooling.adaptive) {
      fits = fits && (in + 1) * (out + 1) <= kMost;
    } else {
      const double around =
          number(w.kernel[d]) * number(w.dilation[d]) + number(w.padding[d]) + number(w.stride[d]);
      fits = fits && in + around <= kMost && out * number(w.stride[d]) + around <= kMost;
    }
  }
  return fits;
}

/// The dtypes of arrays that are computed in T.
template <class T>
constexpr Among kStoredOf = std::is_floating_point_v<T> ? Among::floating : Among::all;

template <class T, class Index>
__global__ void largest_of_windows(PoolPlaces<Index> pooling, std::int64_t total, Array y,
                                   std::int64_t* indices, Array x) {
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const PoolPlace<Index> at = pooling.output.place(static_cast<Index>(e));
    const PoolRange<Index> depths = pooling.places(0, at.at[0]), heights = pooling.places(1, at.at[1]),
                           widths = pooling.places(2, at.at[2]);
    const Index image = pooling.input.row(at.image, 0, 0);
    const auto value = [&](Index place) {
      return load<T, kStoredOf<T>>(x.data, x.dtype, pooling.input.element(image + place, at.channel));
    };
    Index best_at = pooling.input.row(0, depths.first, heights.first) + widths.first;
    T best = value(best_at);
    for (Index d = depths.first; d < depths.last; d += pooling.step[0]) {
      for (Index h = heights.first; h < heights.last; h += pooling.step[1]) {
        const Index row = pooling.input.row(0, d, h);
        for (Index w = widths.first; w < widths.last; w += pooling.step[2]) {
          const T candidate = value(row + w);
          const bool take = candidate > best || candidate != candidate;
          best = take ? candidate : best;
          best_at = take ? row + w : best_at;
        }
      }
    }
    store<T, kStoredOf<T>>(y.data, y.dtype, e, best);
    indices[e] = best_at;
  }
}

template <class T, class Index>
__global__ void gradient_of_largest(PoolPlaces<Index> pooling, std::int64_t total, Array dx, Array grad,
                                    const std::int64_t* indices) {
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const PoolPlace<Index> at = pooling.input.place(static_cast<Index>(e));
    const Index place = pooling.input.row(0, at.at[0], at.at[1]) + at.at[2];
    const PoolRange<Index> depths = pooling.covering(0, at.at[0]), heights = pooling.covering(1, at.at[1]),
                           widths = pooling.covering(2, at.at[2]);
    T sum = 0;
    for (Index d = depths.first; d < depths.last; ++d) {
      for (Index h = heights.first; h < heights.last; ++h) {
        const Index row = pooling.output.row(at.image, d, h);
        for (Index w = widths.first; w < widths.last; ++w) {
          const Index window = pooling.output.element(row + w, at.channel);
          if (indices[window] == place) sum += load<T, kStoredOf<T>>(grad.data, grad.dtype, window);
        }
      }
    }
    store<T, kStoredOf<T>>(dx.data, dx.dtype, e, sum);
  }
}

/// What sums over windows are divided by.
template <class Index>
struct PoolCounts {
  explicit PoolCounts(const AveragePooling& pooling)
      : factor(pooling.factor()),
        fixed(pooling.divisor != 0),
        in_places(pooling.adaptive || !pooling.count_padding) {}

  /// As AveragePooling::count: of window o.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Index along(const PoolPlaces<Index>& pooling, std::size_t d,
                                                           Index o) const {
    if (fixed) return 1;
    if (in_places) {
      const PoolRange<Index> range = pooling.places(d, o);
      return range.last - range.first;
    }
    const Index start = o * pooling.stride[d] - pooling.padding[d], end = start + pooling.reach[d] + 1;
    const Index limit = pooling.input.size[d] + pooling.padding[d];
    return (end < limit ? end : limit) - start;
  }
  /// The divisor of window (d, h, w), multiplied as on the CPU.
  template <class T>
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE T of(const PoolPlaces<Index>& pooling, Index d, Index h,
                                                    Index w) const {
    const std::int64_t plane = std::int64_t{along(pooling, 0, d)} * along(pooling, 1, h) * factor;
    return static_cast<T>(along(pooling, 2, w)) * static_cast<T>(plane);
  }

  std::int64_t factor;
  bool fixed, in_places;
};

/// The sum of term(d, h, w), column by column as on the CPU.
template <class T, class Index, class Term>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE T sum_of_columns(PoolRange<Index> depths,
                                                              PoolRange<Index> heights,
                                                              PoolRange<Index> widths, const Term& term) {
  T sum = 0;
  for (Index w = widths.first; w < widths.last; ++w) {
    T column = 0;
    for (Index d = depths.first; d < depths.last; ++d) {
      for (Index h = heights.first; h < heights.last; ++h) column += term(d, h, w);
    }
    sum += column;
  }
  return sum;
}

template <class T, class Index>
__global__ void mean_of_windows(PoolPlaces<Index> pooling, std::int64_t total, PoolCounts<Index> counts,
                                Array y, Array x) {
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const PoolPlace<Index> at = pooling.output.place(static_cast<Index>(e));
    const T sum = sum_of_columns<T>(pooling.places(0, at.at[0]), pooling.places(1, at.at[1]),
                                    pooling.places(2, at.at[2]), [&](Index d, Index h, Index w) {
                                      const Index place = pooling.input.row(at.image, d, h) + w;
                                      return load<T, kStoredOf<T>>(x.data, x.dtype,
                                                                   pooling.input.element(place, at.channel));
                                    });
    store<T, kStoredOf<T>>(y.data, y.dtype, e,
                           sum / counts.template of<T>(pooling, at.at[0], at.at[1], at.at[2]));
  }
}

template <class T, class Index>
__global__ void gradient_of_mean(PoolPlaces<Index> pooling, std::int64_t total, PoolCounts<Index> counts,
                                 Array dx, Array grad) {
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const PoolPlace<Index> at = pooling.input.place(static_cast<Index>(e));
    const T sum = sum_of_columns<T>(
        pooling.covering(0, at.at[0]), pooling.covering(1, at.at[1]), pooling.covering(2, at.at[2]),
        [&](Index d, Index h, Index w) {
          const Index window = pooling.output.row(at.image, d, h) + w;
          return load<T, kStoredOf<T>>(grad.data, grad.dtype, pooling.output.element(window, at.channel)) /
                 counts.template of<T>(pooling, d, h, w);
        });
    store<T, kStoredOf<T>>(dx.data, dx.dtype, e, sum);
  }
}

/// Calls f(TypeTag<Index>{}) with the type that counts a pooling's elements.
template <class F>
void with_index(const Pooling& pooling, const F& f) {
  has_narrow_places(pooling) ? f(TypeTag<std::int32_t>{}) : f(TypeTag<std::int64_t>{});
}

/// Starts a kernel with a thread per element of an array of `places` per image.
template <class Index, class... Params, class... Args>
void start_over(Device device, void (*kernel)(PoolPlaces<Index>, std::int64_t, Params...),
                const Pooling& pooling, std::int64_t places, const Args&... args) {
  const std::int64_t total = pooling.outer * places * pooling.inner;
  start_resident(device, total, kernel, PoolPlaces<Index>(pooling), total, args...);
}

/// In which gradients and means of these arrays are computed.
DType compute_of(const View& a, const View& b) {
  return compute_dtype(a.dtype) == DType::f64 ? DType::f64 : compute_dtype(b.dtype);
}

}  // namespace

void max_pool(Device device, const Pooling& pooling, const View& y, std::int64_t* indices, const View& x) {
  dispatch_compute(x.dtype, [&]<class T>(TypeTag<T> /*number*/) {
    with_index(pooling, [&]<class Index>(TypeTag<Index> /*index*/) {
      start_over(device, largest_of_windows<T, Index>, pooling, pooling.windows.outputs(), array_of(y),
                 indices, array_of(x));
    });
  });
}

std::int64_t max_pool_backward(Device device, const Pooling& pooling, const View& dx, const View& grad,
                               const std::int64_t* indices) {
  dispatch_real(compute_of(dx, grad), [&]<class T>(TypeTag<T> /*number*/) {
    with_index(pooling, [&]<class Index>(TypeTag<Index> /*index*/) {
      start_over(device, gradient_of_largest<T, Index>, pooling, pooling.windows.inputs(), array_of(dx),
                 array_of(grad), indices);
    });
  });
  return -1;
}

void average_pool(Device device, const AveragePooling& pooling, const View& y, const View& x) {
  dispatch_real(compute_of(y, x), [&]<class T>(TypeTag<T> /*number*/) {
    with_index(pooling, [&]<class Index>(TypeTag<Index> /*index*/) {
      start_over(device, mean_of_windows<T, Index>, pooling, pooling.windows.outputs(),
                 PoolCounts<Index>(pooling), array_of(y), array_of(x));
    });
  });
}

void average_pool_backward(Device device, const AveragePooling& pooling, const View& dx, const View& grad) {
  dispatch_real(compute_of(dx, grad), [&]<class T>(TypeTag<T> /*number*/) {
    with_index(pooling, [&]<class Index>(TypeTag<Index> /*index*/) {
      start_over(device, gradient_of_mean<T, Index>, pooling, pooling.windows.inputs(),
                 PoolCounts<Index>(pooling), array_of(dx), array_of(grad));
    });
  });
}

}  // namespace mezzo::kernels::cuda
