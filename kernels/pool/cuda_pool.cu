// CUDA kernels of poolings. A thread has an element of the result, in the order of memory, so neighbouring
// threads write neighbours in either layout. Gradients gather: a thread adds up what the windows over its
// place have for it, in a fixed order and without atomics.
//
// Bounds: an element's number is below the array's size, places and windows come as ranges that lie within
// the input and the output (kernels/pool/pool.h), and indices are compared only, never used to read.
#include "mezzo/kernels/pool/pool.h"

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/grid.h"
#include "mezzo/kernels/math/quotient.h"

namespace mezzo::kernels::cuda {

namespace {

/// An element of a dense array of images, by its places.
struct PoolPlace {
  std::int64_t image, d, h, w, channel;
};
[[nodiscard]] __device__ PoolPlace pool_place(std::int64_t e, const Windows::Sizes& sizes,
                                              std::int64_t inner) {
  const std::int64_t place = quotient(e, inner), row = quotient(place, sizes[2]);
  const std::int64_t plane = quotient(row, sizes[1]), image = quotient(plane, sizes[0]);
  return {image, plane - image * sizes[0], row - plane * sizes[1], place - row * sizes[2], e - place * inner};
}
/// Where row (d, h) of an image begins, counted in places of all images.
[[nodiscard]] __device__ std::int64_t row_start(std::int64_t image, std::int64_t d, std::int64_t h,
                                                const Windows::Sizes& sizes) {
  return ((image * sizes[0] + d) * sizes[1] + h) * sizes[2];
}

template <class T>
__global__ void largest_of_windows(Pooling pooling, Array y, std::int64_t* indices, Array x) {
  const Windows& windows = pooling.windows;
  const std::int64_t inner = pooling.inner, total = pooling.outer * windows.outputs() * inner;
  const std::int64_t steps[3] = {pooling.adaptive ? 1 : windows.dilation[0],
                                 pooling.adaptive ? 1 : windows.dilation[1],
                                 pooling.adaptive ? 1 : windows.dilation[2]};
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const PoolPlace at = pool_place(e, windows.output, inner);
    const PlaceRange depths = pooling.places(0, at.d), heights = pooling.places(1, at.h),
                     widths = pooling.places(2, at.w);
    const std::int64_t image = row_start(at.image, 0, 0, windows.input);
    const auto value = [&](std::int64_t place) {
      return load<T>(x.data, x.dtype, (image + place) * inner + at.channel);
    };
    std::int64_t best_at = row_start(0, depths.first, heights.first, windows.input) + widths.first;
    T best = value(best_at);
    for (std::int64_t d = depths.first; d < depths.last; d += steps[0]) {
      for (std::int64_t h = heights.first; h < heights.last; h += steps[1]) {
        const std::int64_t row = row_start(0, d, h, windows.input);
        for (std::int64_t w = widths.first; w < widths.last; w += steps[2]) {
          const T candidate = value(row + w);
          const bool take = candidate > best || candidate != candidate;
          best = take ? candidate : best;
          best_at = take ? row + w : best_at;
        }
      }
    }
    store<T>(y.data, y.dtype, e, best);
    indices[e] = best_at;
  }
}

template <class T>
__global__ void gradient_of_largest(Pooling pooling, Array dx, Array grad, const std::int64_t* indices) {
  const Windows& windows = pooling.windows;
  const std::int64_t inner = pooling.inner, total = pooling.outer * windows.inputs() * inner;
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const PoolPlace at = pool_place(e, windows.input, inner);
    const std::int64_t place = row_start(0, at.d, at.h, windows.input) + at.w;
    const PlaceRange depths = pooling.covering(0, at.d), heights = pooling.covering(1, at.h),
                     widths = pooling.covering(2, at.w);
    T sum = 0;
    for (std::int64_t d = depths.first; d < depths.last; ++d) {
      for (std::int64_t h = heights.first; h < heights.last; ++h) {
        const std::int64_t row = row_start(at.image, d, h, windows.output);
        for (std::int64_t w = widths.first; w < widths.last; ++w) {
          const std::int64_t window = (row + w) * inner + at.channel;
          if (indices[window] == place) sum += load<T>(grad.data, grad.dtype, window);
        }
      }
    }
    store<T>(dx.data, dx.dtype, e, sum);
  }
}

/// What the sum over a window is divided by, multiplied as on the CPU.
template <class T>
[[nodiscard]] __device__ T divisor_of(const AveragePooling& pooling, std::int64_t d, std::int64_t h,
                                      std::int64_t w) {
  return static_cast<T>(pooling.count(2, w)) *
         static_cast<T>(pooling.count(0, d) * pooling.count(1, h) * pooling.factor());
}

/// The sum of term(d, h, w), column by column as on the CPU.
template <class T, class Term>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE T sum_of_columns(PlaceRange depths, PlaceRange heights,
                                                              PlaceRange widths, const Term& term) {
  T sum = 0;
  for (std::int64_t w = widths.first; w < widths.last; ++w) {
    T column = 0;
    for (std::int64_t d = depths.first; d < depths.last; ++d) {
      for (std::int64_t h = heights.first; h < heights.last; ++h) column += term(d, h, w);
    }
    sum += column;
  }
  return sum;
}

template <class T>
__global__ void mean_of_windows(AveragePooling pooling, Array y, Array x) {
  const Windows& windows = pooling.windows;
  const std::int64_t inner = pooling.inner, total = pooling.outer * windows.outputs() * inner;
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const PoolPlace at = pool_place(e, windows.output, inner);
    const PlaceRange depths = pooling.places(0, at.d), heights = pooling.places(1, at.h),
                     widths = pooling.places(2, at.w);
    const T sum = sum_of_columns<T>(depths, heights, widths, [&](auto d, auto h, auto w) {
      const std::int64_t place = row_start(at.image, d, h, windows.input) + w;
      return load<T>(x.data, x.dtype, place * inner + at.channel);
    });
    store<T>(y.data, y.dtype, e, sum / divisor_of<T>(pooling, at.d, at.h, at.w));
  }
}

template <class T>
__global__ void gradient_of_mean(AveragePooling pooling, Array dx, Array grad) {
  const Windows& windows = pooling.windows;
  const std::int64_t inner = pooling.inner, total = pooling.outer * windows.inputs() * inner;
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const PoolPlace at = pool_place(e, windows.input, inner);
    const PlaceRange depths = pooling.covering(0, at.d), heights = pooling.covering(1, at.h),
                     widths = pooling.covering(2, at.w);
    const T sum = sum_of_columns<T>(depths, heights, widths, [&](auto d, auto h, auto w) {
      const std::int64_t window = row_start(at.image, d, h, windows.output) + w;
      return load<T>(grad.data, grad.dtype, window * inner + at.channel) / divisor_of<T>(pooling, d, h, w);
    });
    store<T>(dx.data, dx.dtype, e, sum);
  }
}

/// Starts a kernel with a thread per element of an array of `places` per image.
template <class... Params, class... Args>
void start(Device device, void (*kernel)(Params...), const Pooling& pooling, std::int64_t places,
           const Args&... args) {
  const Grid grid = grid_for(pooling.outer * places * pooling.inner);
  mezzo::cuda::launch(kernel, dim3(grid.blocks), dim3(grid.threads), 0, mezzo::cuda::current_stream(device),
                      args...);
}

/// In which gradients and means of these arrays are computed.
DType compute_of(const View& a, const View& b) {
  return compute_dtype(a.dtype) == DType::f64 ? DType::f64 : compute_dtype(b.dtype);
}

}  // namespace

void max_pool(Device device, const Pooling& pooling, const View& y, std::int64_t* indices, const View& x) {
  dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
    start(device, largest_of_windows<T>, pooling, pooling.windows.outputs(), pooling, array_of(y), indices,
          array_of(x));
  });
}

std::int64_t max_pool_backward(Device device, const Pooling& pooling, const View& dx, const View& grad,
                               const std::int64_t* indices) {
  dispatch_real(compute_of(dx, grad), [&]<class T>(TypeTag<T>) {
    start(device, gradient_of_largest<T>, pooling, pooling.windows.inputs(), pooling, array_of(dx),
          array_of(grad), indices);
  });
  return -1;
}

void average_pool(Device device, const AveragePooling& pooling, const View& y, const View& x) {
  dispatch_real(compute_of(y, x), [&]<class T>(TypeTag<T>) {
    start(device, mean_of_windows<T>, pooling, pooling.windows.outputs(), pooling, array_of(y), array_of(x));
  });
}

void average_pool_backward(Device device, const AveragePooling& pooling, const View& dx, const View& grad) {
  dispatch_real(compute_of(dx, grad), [&]<class T>(TypeTag<T>) {
    start(device, gradient_of_mean<T>, pooling, pooling.windows.inputs(), pooling, array_of(dx),
          array_of(grad));
  });
}

}  // namespace mezzo::kernels::cuda
