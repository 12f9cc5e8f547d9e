// The CUDA kernel of fold, which gathers: a thread has an element of the result, in the order of memory, and
// adds up what all columns have for its place, in the order of the kernel's places, without atomics.
//
// Bounds: an element's number is below the array's size, and a place or window is used only after it was
// found to lie inside.
#include "mezzo/kernels/pool/pool.h"

#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/math/quotient.h"

namespace mezzo::kernels::cuda {

namespace {

/// The places of element `e` of a row-major array [first, rest's three sizes].
struct Places3 {
  std::int64_t first, at[3];
};
[[nodiscard]] __device__ Places3 places3(std::int64_t e, const Windows::Sizes& sizes) {
  Places3 result;
  for (int d = 2; d >= 0; --d) {
    const std::int64_t next = quotient(e, sizes[d]);
    result.at[d] = e - next * sizes[d];
    e = next;
  }
  result.first = e;
  return result;
}
[[nodiscard]] __device__ std::int64_t offset3(const Places3& places, const Windows::Sizes& sizes) {
  return ((places.first * sizes[0] + places.at[0]) * sizes[1] + places.at[1]) * sizes[2] + places.at[2];
}

/// The window in which position k of the kernel is place i, or -1.
[[nodiscard]] __device__ std::int64_t window_of(const Windows& windows, int dim, std::int64_t i,
                                                std::int64_t k) {
  const std::int64_t start = i + windows.padding[dim] - k * windows.dilation[dim];
  if (start < 0) return -1;
  const std::int64_t o = quotient(start, windows.stride[dim]);
  return o * windows.stride[dim] == start && o < windows.output[dim] ? o : -1;
}

template <class T>
__global__ void add_columns(std::int64_t planes, Windows windows, Array x, Array columns) {
  const std::int64_t total = planes * windows.inputs();
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const Places3 i = places3(e, windows.input);
    T sum = 0;
    Places3 k{i.first, {}};
    for (k.at[0] = 0; k.at[0] < windows.kernel[0]; ++k.at[0]) {
      const std::int64_t d = window_of(windows, 0, i.at[0], k.at[0]);
      if (d < 0) continue;
      for (k.at[1] = 0; k.at[1] < windows.kernel[1]; ++k.at[1]) {
        const std::int64_t h = window_of(windows, 1, i.at[1], k.at[1]);
        if (h < 0) continue;
        for (k.at[2] = 0; k.at[2] < windows.kernel[2]; ++k.at[2]) {
          const std::int64_t w = window_of(windows, 2, i.at[2], k.at[2]);
          if (w < 0) continue;
          const Places3 o{offset3(k, windows.kernel), {d, h, w}};
          sum += load<T>(columns.data, columns.dtype, offset3(o, windows.output));
        }
      }
    }
    store<T>(x.data, x.dtype, e, sum);
  }
}

}  // namespace

void fold(Device device, std::int64_t planes, const Windows& windows, const View& x, const View& columns) {
  const bool wide = x.dtype == DType::f64 || columns.dtype == DType::f64;
  dispatch_real(wide ? DType::f64 : DType::f32, [&]<class T>(TypeTag<T>) {
    start(device, planes * windows.inputs(), add_columns<T>, planes, windows, array_of(x), array_of(columns));
  });
}

}  // namespace mezzo::kernels::cuda
