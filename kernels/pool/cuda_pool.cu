// CUDA kernels of poolings. Places are counted in std::int32_t where has_narrow_places says so, whose
// divisions are products, else in std::int64_t. A thread has an element of the result, in the order of
// memory, so neighbouring threads write neighbours in either layout. Gradients gather: a thread adds up what
// the windows over its place have for it, in a fixed order and without atomics.
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
#include "mezzo/kernels/pool/pool_places.h"

namespace mezzo::kernels::cuda {

namespace {

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
