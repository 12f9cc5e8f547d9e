// interpolate on a CUDA device: a thread per element of the result. The gradient of a place is gathered from
// the results that it has a part in, which are computed: no atomics, and no tables in memory.
#include "mezzo/kernels/resample/interpolate.h"

#include <type_traits>

#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/rows.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/resample/cuda_places.h"

namespace mezzo::kernels::cuda {

namespace {

/// The maps of the three dims, as a kernel takes them.
template <class T>
struct Maps {
  Resampler<T> of[InterpolateShape::kDims];
  std::int64_t inner;
};

/// `out` has `total` elements; kTerms: the largest number of places that a result reads along a dim.
template <class T, int kTerms>
__global__ void resample(Array out, Array x, const Maps<T> __grid_constant__ maps, std::int64_t total) {
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const ImagePlace o = image_place(e, maps.of[0].out(), maps.of[1].out(), maps.of[2].out(), maps.inner);
    Taps<T> taps[InterpolateShape::kDims];
    MEZZO_UNROLL
    for (int d = 0; d < 3; ++d) taps[d] = maps.of[d].template taps_of<kTerms>(o.at[d]);
    T sum = T(0);
    MEZZO_UNROLL
    for (int i = 0; i < kTerms; ++i) {
      if (i >= maps.of[0].count()) continue;
      const std::int64_t plane = o.outer * maps.of[0].in() + taps[0].at[i];
      MEZZO_UNROLL
      for (int j = 0; j < kTerms; ++j) {
        if (j >= maps.of[1].count()) continue;
        const std::int64_t row = plane * maps.of[1].in() + taps[1].at[j];
        const T weight = taps[0].weight[i] * taps[1].weight[j];
        MEZZO_UNROLL
        for (int k = 0; k < kTerms; ++k) {
          if (k >= maps.of[2].count()) continue;
          const std::int64_t place = row * maps.of[2].in() + taps[2].at[k];
          const T value = load<T>(x.data, x.dtype, place * maps.inner + o.inner);
          sum += weight * taps[2].weight[k] * value;
        }
      }
    }
    store(out.data, out.dtype, e, sum);
  }
}

/// kTerms: as for resample.
template <class T, int kTerms>
__global__ void gather_gradient(Array out, Array grad, const Maps<T> __grid_constant__ maps,
                                std::int64_t total) {
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const ImagePlace p = image_place(e, maps.of[0].in(), maps.of[1].in(), maps.of[2].in(), maps.inner);
    Readers readers[InterpolateShape::kDims];
    MEZZO_UNROLL
    for (int d = 0; d < 3; ++d) readers[d] = maps.of[d].readers(p.at[d]);
    double sum = 0;
    for (std::int64_t i = readers[0].first; i < readers[0].last; ++i) {
      const std::int64_t plane = p.outer * maps.of[0].out() + i;
      const T of_plane = maps.of[0].template weight_of<kTerms>(i, p.at[0]);
      for (std::int64_t j = readers[1].first; j < readers[1].last; ++j) {
        const std::int64_t row = plane * maps.of[1].out() + j;
        const T of_row = of_plane * maps.of[1].template weight_of<kTerms>(j, p.at[1]);
        for (std::int64_t k = readers[2].first; k < readers[2].last; ++k) {
          const T weight = of_row * maps.of[2].template weight_of<kTerms>(k, p.at[2]);
          const std::int64_t place = row * maps.of[2].out() + k;
          sum += static_cast<double>(weight) *
                 static_cast<double>(load<T>(grad.data, grad.dtype, place * maps.inner + p.inner));
        }
      }
    }
    store(out.data, out.dtype, e, static_cast<T>(sum));
  }
}

/// Calls f with kTerms of the kernels above, as a constant.
template <class F>
void with_terms(Resampling kind, F f) {
  if (kind == Resampling::cubic) return f(std::integral_constant<int, 4>{});
  kind == Resampling::linear ? f(std::integral_constant<int, 2>{}) : f(std::integral_constant<int, 1>{});
}

template <class T>
Maps<T> maps_of(const InterpolateShape& shape) {
  Maps<T> maps{{}, shape.inner};
  for (std::size_t d = 0; d < InterpolateShape::kDims; ++d) maps.of[d] = shape.along<T>(d);
  return maps;
}

}  // namespace

void interpolate(Device device, const InterpolateShape& shape, const View& out, const View& x,
                 DType compute) {
  std::int64_t total = shape.outer * shape.inner;
  for (const ResampledDim& dim : shape.dims) total *= dim.out;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    with_terms(shape.kind, [&]<int kTerms>(std::integral_constant<int, kTerms>) {
      start(device, total, resample<T, kTerms>, array_of(out), array_of(x), maps_of<T>(shape), total);
    });
  });
}

void interpolate_backward(Device device, const InterpolateShape& shape, const View& out, const View& grad,
                          DType compute) {
  std::int64_t total = shape.outer * shape.inner;
  for (const ResampledDim& dim : shape.dims) total *= dim.in;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    with_terms(shape.kind, [&]<int kTerms>(std::integral_constant<int, kTerms>) {
      start(device, total, gather_gradient<T, kTerms>, array_of(out), array_of(grad), maps_of<T>(shape),
            total);
    });
  });
}

}  // namespace mezzo::kernels::cuda
