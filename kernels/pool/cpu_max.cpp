// Poolings by the largest element on the CPU. Windows over images without dilation are taken in registers
// (cpu_max_planes.h). The others are a plain loop over windows and their places. The gradient adds each
// element of `grad` where its index says, image by image: no two threads have one image's channel, and the
// order is that of the windows.
#include <algorithm>
#include <atomic>
#include <limits>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/pool/cpu_images.h"
#include "mezzo/kernels/pool/cpu_max_planes.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu {

namespace {

using namespace detail;

/// What every number but itself is larger than.
template <class T>
inline constexpr T kLeast = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                                 : std::numeric_limits<T>::lowest();

/// The plain loop: the largest of each window of row (od, oh) of an image, of any layout and number of dims.
template <class T>
void largest_of_windows(const Pooling& pooling, const T* x, std::int64_t od, std::int64_t oh, T* best,
                        std::int64_t* at) {
  const Windows& windows = pooling.windows;
  const PoolPlaces<std::int64_t> all(pooling);
  const PlaceRange depths = all.places(0, od), heights = all.places(1, oh);
  const auto place_of = [&](std::int64_t d, std::int64_t h, std::int64_t w) {
    return (d * windows.input[1] + h) * windows.input[2] + w;
  };
  for (std::int64_t o = 0; o < windows.output[2]; ++o, best += pooling.inner, at += pooling.inner) {
    const PlaceRange widths = all.places(2, o);
    std::fill_n(best, pooling.inner, kLeast<T>);
    std::fill_n(at, pooling.inner, place_of(depths.first, heights.first, widths.first));
    for (std::int64_t d = depths.first; d < depths.last; d += all.step[0]) {
      for (std::int64_t h = heights.first; h < heights.last; h += all.step[1]) {
        for (std::int64_t w = widths.first; w < widths.last; w += all.step[2]) {
          const std::int64_t place = place_of(d, h, w);
          for (std::int64_t c = 0; c < pooling.inner; ++c)
            take_larger(x[place * pooling.inner + c], place, best[c], at[c]);
        }
      }
    }
  }
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
  const Windows& windows = pooling.windows;
  const std::int64_t length = windows.output[2] * pooling.inner;
  dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
    for_images<T>(pooling, y, windows.output, x, windows.inputs(), [&](const T* image, const auto& rows) {
      rows([&](T* row, std::int64_t d, std::int64_t h, std::int64_t r) {
        largest_of_windows(pooling, image, d, h, row, indices + r * length);
      });
    });
  });
}

std::int64_t max_pool_backward(const Pooling& pooling, const View& dx, const View& grad,
                               const std::int64_t* indices) {
  const DType compute = promote(compute_dtype(dx.dtype), compute_dtype(grad.dtype));
  if (compute == DType::f64) return max_pool_backward_as<double>(pooling, dx, grad, indices);
  return max_pool_backward_as<float>(pooling, dx, grad, indices);
}

}  // namespace mezzo::kernels::cpu
