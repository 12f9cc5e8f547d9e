// grid_sample on a CUDA device. Several places may read one element of x, so for its gradient the corners of
// all places are sorted by the element they lie on, and a thread adds up what falls on its own: no atomics.
#include "mezzo/kernels/resample/grid_sample.h"

#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/rows.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/indexing/indexing.h"
#include "mezzo/kernels/resample/cuda_places.h"

namespace mezzo::kernels::cuda {

namespace {

/// A call, as kernels take it.
template <class T, int kAxes>
struct Sampling {
  std::int64_t batch, channels, places, plane, sizes[kAxes], strides[kAxes];
  std::int64_t place_stride, out_channel, x_channel;  ///< see GridSampleShape
  int corners;
  GridRule rule;
  Array grid;

  Sampling(const GridSampleShape& shape, const View& coordinates)
      : batch(shape.batch),
        channels(shape.channels),
        places(shape.places),
        plane(shape.plane()),
        place_stride(shape.place_stride()),
        out_channel(shape.channel_stride(shape.places)),
        x_channel(shape.channel_stride(shape.plane())),
        corners(shape.corners()),
        rule(shape.rule),
        grid{coordinates.data, coordinates.dtype} {
    const auto all = shape.strides();
    for (int a = 0; a < kAxes; ++a) {
      sizes[a] = shape.sizes[static_cast<std::size_t>(a)];
      strides[a] = all[static_cast<std::size_t>(a)];
    }
  }
  /// Of the place `place` of all samples counted through.
  [[nodiscard]] __device__ GridCorners<T, kAxes> corners_of(std::int64_t place) const {
    GridCorners<T, kAxes> found;
    MEZZO_UNROLL
    for (int a = 0; a < kAxes; ++a)
      found.cells[a] = grid_cell(load<T>(grid.data, grid.dtype, place * kAxes + a), sizes[a], rule);
    return found;
  }
};

/// A thread's channels: what it finds out about a place serves all of them.
constexpr int kChannels = 4;

/// A place of a sample, and its channels first, first + step, ... below `end`. Neighbouring threads write
/// neighbouring elements: of a channel, or channels of a place.
struct PlaceChannels {
  std::int64_t sample, place, first, step, end;
};
[[nodiscard]] __host__ __device__ inline std::int64_t channel_lanes(std::int64_t channels) {
  return (channels + kChannels - 1) / kChannels;
}
template <class S>
[[nodiscard]] __device__ PlaceChannels channels_of(const S& s, std::int64_t thread, std::int64_t places) {
  const bool channels_last = s.place_stride != 1;
  const std::int64_t lanes = channel_lanes(s.channels);
  const ImagePlace p =
      channels_last ? image_place(thread, 1, 1, places, lanes) : image_place(thread, 1, lanes, places, 1);
  return {p.outer, p.at[2], channels_last ? p.inner : p.at[1], lanes, s.channels};
}

/// A thread per place and lane of channels.
template <class T, int kAxes>
__global__ void sample_places(Array out, Array x, const Sampling<T, kAxes> __grid_constant__ s) {
  constexpr int kCorners = 1 << kAxes;
  const std::int64_t total = s.batch * channel_lanes(s.channels) * s.places;
  for (std::int64_t t = first_index(); t < total; t += grid_size()) {
    const PlaceChannels at = channels_of(s, t, s.places);
    const GridCorners<T, kAxes> corners = s.corners_of(at.sample * s.places + at.place);
    std::int64_t offsets[kCorners];
    T weights[kCorners];
    MEZZO_UNROLL
    for (int k = 0; k < kCorners; ++k) {
      offsets[k] = k < s.corners ? corners.offset(k, s.sizes, s.strides) : -1;
      weights[k] = offsets[k] < 0 ? T(0) : corners.weight(k);
    }
    const std::int64_t from_x = at.sample * s.channels * s.plane;
    const std::int64_t to = at.sample * s.channels * s.places + at.place * s.place_stride;
    for (std::int64_t c = at.first; c < at.end; c += at.step) {
      T sum = T(0);
      MEZZO_UNROLL
      for (int k = 0; k < kCorners; ++k) {
        if (offsets[k] >= 0)
          sum += weights[k] * load<T>(x.data, x.dtype, from_x + c * s.x_channel + offsets[k]);
      }
      store(out.data, out.dtype, to + c * s.out_channel, sum);
    }
  }
}

/// A thread per place, for all channels.
template <class T, int kAxes>
__global__ void grid_gradients(Array out, Array grad, Array x, const Sampling<T, kAxes> __grid_constant__ s) {
  constexpr int kCorners = 1 << kAxes;
  const std::int64_t total = s.batch * s.places;
  for (std::int64_t p = first_index(); p < total; p += grid_size()) {
    const GridCorners<T, kAxes> corners = s.corners_of(p);
    std::int64_t offsets[kCorners];
    T upper[kAxes];
    for (int k = 0; k < kCorners; ++k) offsets[k] = corners.offset(k, s.sizes, s.strides);
    for (int a = 0; a < kAxes; ++a) upper[a] = corners.cells[a].upper;
    const std::int64_t sample = p / s.places, place = p - sample * s.places;
    const std::int64_t from_x = sample * s.channels * s.plane;
    const std::int64_t from_grad = sample * s.channels * s.places + place * s.place_stride;
    double sums[kAxes] = {};
    for (std::int64_t c = 0; c < s.channels; ++c) {
      T values[kCorners], slopes[kAxes];
      for (int k = 0; k < kCorners; ++k) {
        values[k] = offsets[k] < 0 ? T(0) : load<T>(x.data, x.dtype, from_x + c * s.x_channel + offsets[k]);
      }
      corner_slopes<T, kAxes>(values, upper, slopes);
      const T g = load<T>(grad.data, grad.dtype, from_grad + c * s.out_channel);
      for (int a = 0; a < kAxes; ++a) sums[a] += static_cast<double>(g) * static_cast<double>(slopes[a]);
    }
    for (int a = 0; a < kAxes; ++a) {
      const double slope = static_cast<double>(corners.cells[a].slope);
      store(out.data, out.dtype, p * kAxes + a, static_cast<T>(sums[a] * slope));
    }
  }
}

/// A thread per place: on which place of x, counted through all samples, each of its corners lies (-1
/// outside), and with which weight. Clears the ends of the runs too.
template <class T, int kAxes>
__global__ void list_corners(std::int64_t* elements, T* weights, IndexRuns runs,
                             const Sampling<T, kAxes> __grid_constant__ s) {
  for (std::int64_t v = first_index(); v < runs.values; v += grid_size()) runs.first[v] = runs.last[v] = 0;
  const std::int64_t total = s.batch * s.places;
  for (std::int64_t p = first_index(); p < total; p += grid_size()) {
    const GridCorners<T, kAxes> corners = s.corners_of(p);
    const std::int64_t sample = p / s.places;
    for (int k = 0; k < s.corners; ++k) {
      const std::int64_t offset = corners.offset(k, s.sizes, s.strides);
      elements[p * s.corners + k] = offset < 0 ? -1 : sample * s.plane + offset / s.place_stride;
      weights[p * s.corners + k] = corners.weight(k);
    }
  }
}

/// A thread per place of x and lane of channels.
template <class T, int kAxes>
__global__ void sum_corners(Array out, Array grad, const T* weights, IndexRuns runs,
                            const Sampling<T, kAxes> __grid_constant__ s) {
  const std::int64_t total = s.batch * channel_lanes(s.channels) * s.plane;
  for (std::int64_t t = first_index(); t < total; t += grid_size()) {
    const PlaceChannels at = channels_of(s, t, s.plane);
    const std::int64_t run = at.sample * s.plane + at.place;
    const std::int64_t from_grad = at.sample * s.channels * s.places;
    double sums[kChannels] = {};
    for (std::int64_t i = runs.first[run]; i < runs.last[run]; ++i) {
      const std::int64_t corner = runs.order[i];
      const std::int64_t place = (s.corners == 1 ? corner : corner >> kAxes) - at.sample * s.places;
      const auto weight = static_cast<double>(weights[corner]);
      for (int j = 0; j < kChannels; ++j) {
        const std::int64_t c = at.first + j * at.step;
        if (c >= at.end) break;
        const T g = load<T>(grad.data, grad.dtype, from_grad + c * s.out_channel + place * s.place_stride);
        sums[j] += weight * static_cast<double>(g);
      }
    }
    const std::int64_t to = at.sample * s.channels * s.plane + at.place * s.place_stride;
    for (int j = 0; j < kChannels; ++j) {
      const std::int64_t c = at.first + j * at.step;
      if (c < at.end) store(out.data, out.dtype, to + c * s.x_channel, static_cast<T>(sums[j]));
    }
  }
}

/// Calls f with the call as kernels take it.
template <class F>
void with_sampling(const GridSampleShape& shape, const View& grid, DType compute, const F& f) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    shape.axes == 2 ? f(Sampling<T, 2>(shape, grid)) : f(Sampling<T, 3>(shape, grid));
  });
}

}  // namespace

void grid_sample(Device device, const GridSampleShape& shape, const View& out, const View& x,
                 const View& grid, DType compute) {
  with_sampling(shape, grid, compute, [&]<class T, int kAxes>(const Sampling<T, kAxes>& s) {
    start(device, s.batch * channel_lanes(s.channels) * s.places, sample_places<T, kAxes>, array_of(out),
          array_of(x), s);
  });
}

void grid_sample_input_gradient(Device device, const GridSampleShape& shape, const View& out,
                                const View& grad, const View& grid, DType compute) {
  with_sampling(shape, grid, compute, [&]<class T, int kAxes>(const Sampling<T, kAxes>& s) {
    constexpr std::int64_t kIndex = sizeof(std::int64_t);
    const std::int64_t corners = s.batch * s.places * s.corners, values = s.batch * s.plane;
    const Scratch elements(device, corners * kIndex), weights(device, corners * std::int64_t{sizeof(T)});
    const Scratch order(device, corners * kIndex), ends(device, 2 * values * kIndex);
    auto* const first = static_cast<std::int64_t*>(ends.data());
    auto* const index = static_cast<std::int64_t*>(elements.data());
    auto* const weight = static_cast<T*>(weights.data());
    const IndexRuns runs{corners, values, static_cast<std::int64_t*>(order.data()), first, first + values};
    start(device, std::max(s.batch * s.places, values), list_corners<T, kAxes>, index, weight, runs, s);
    find_index_runs(device, index, runs, -1);
    start(device, s.batch * channel_lanes(s.channels) * s.plane, sum_corners<T, kAxes>, array_of(out),
          array_of(grad), weight, runs, s);
  });
}

void grid_sample_grid_gradient(Device device, const GridSampleShape& shape, const View& out, const View& grad,
                               const View& x, const View& grid, DType compute) {
  with_sampling(shape, grid, compute, [&]<class T, int kAxes>(const Sampling<T, kAxes>& s) {
    start(device, s.batch * s.places, grid_gradients<T, kAxes>, array_of(out), array_of(grad), array_of(x),
          s);
  });
}

}  // namespace mezzo::kernels::cuda
