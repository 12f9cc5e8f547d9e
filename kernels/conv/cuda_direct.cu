// Convolutions with few channels per group, term by term. No atomics: the bits depend on sizes only.
#include "mezzo/kernels/conv/cuda_algorithms.h"
#include "mezzo/kernels/conv/cuda_places.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/math/float_parts.h"
#include "mezzo/kernels/reduce/cuda_kernels.h"

namespace mezzo::kernels::cuda {

namespace {

using math::detail::add_product;

/// Sizes and arrays as the kernels take them.
struct DirectConv {
  DirectConv(const ConvShape& s, const View& x_view, const View& y_view, const View& weight_view,
             const void* bias_data)
      : shape(s),
        x{x_view.data, x_view.dtype},
        y{y_view.data, y_view.dtype},
        weight{weight_view.data, weight_view.dtype},
        bias(bias_data),
        in(input_strides(s)),
        out(output_strides(s)),
        group_in(s.in_channels / s.groups),
        group_out(s.out_channels / s.groups) {}

  ConvShape shape;
  Array x, y, weight;
  const void* bias;  ///< of the result's dtype, or null
  ImageStrides in, out;
  std::int64_t group_in, group_out;

  /// Element (o, c, k) of the weight; c counts within o's group.
  template <class T>
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE T weight_at(std::int64_t o, std::int64_t c,
                                                           std::int64_t k) const {
    return load<T>(weight.data, weight.dtype, (o * group_in + c) * shape.windows.kernels() + k);
  }
  template <class T>
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE T bias_at(DType dtype, std::int64_t channel) const {
    return bias != nullptr ? load<T>(bias, dtype, channel) : T(0);
  }
};

/// A thread per element of y. Indices stay below its number of elements, and for_each_covered gives places
/// of x only.
template <class T>
__global__ void direct_forward_kernel(DirectConv conv, std::int64_t total) {
  const Windows& windows = conv.shape.windows;
  for (std::int64_t i = first_index(); i < total; i += grid_size()) {
    const ImageElement e(i, conv.shape.out_channels, windows.outputs(), conv.shape.channels_last);
    const Windows::Sizes t = positions_of(e.place, windows.output);
    const std::int64_t first = e.channel / conv.group_out * conv.group_in;
    T sum = T(0);
    for (std::int64_t c = 0; c < conv.group_in; ++c) {
      for_each_covered(windows, t, [&](std::int64_t k, std::int64_t place) {
        if (place < 0) return;
        const T x = load<T>(conv.x.data, conv.x.dtype, conv.in.at(e.sample, first + c, place));
        sum = add_product(sum, x, conv.weight_at<T>(e.channel, c, k));
      });
    }
    store(conv.y.data, conv.y.dtype, i, sum + conv.bias_at<T>(conv.y.dtype, e.channel));
  }
}

/// A thread per element of x, over the windows that cover it.
template <class T>
__global__ void direct_input_kernel(DirectConv conv, std::int64_t total) {
  const Windows& windows = conv.shape.windows;
  for (std::int64_t i = first_index(); i < total; i += grid_size()) {
    const ImageElement e(i, conv.shape.in_channels, windows.inputs(), conv.shape.channels_last);
    const Windows::Sizes p = positions_of(e.place, windows.input);
    const std::int64_t group = e.channel / conv.group_in, c = e.channel - group * conv.group_in;
    T sum = T(0);
    for (std::int64_t o = group * conv.group_out; o < (group + 1) * conv.group_out; ++o) {
      for_each_cover(windows, p, [&](std::int64_t k, std::int64_t t) {
        const T y = load<T>(conv.y.data, conv.y.dtype, conv.out.at(e.sample, o, t));
        sum = add_product(sum, y, conv.weight_at<T>(o, c, k));
      });
    }
    store(conv.x.data, conv.x.dtype, i, sum + conv.bias_at<T>(conv.x.dtype, e.channel));
  }
}

/// The weight gradient as a reduction (reduce/cuda_kernels.h): an output is an element of the weight, its
/// terms are the windows of all samples. Outputs are counted with the output channel last, which makes
/// neighbours of them neighbours in the memory of channels-last images.
template <class T>
struct DirectWeightSums {
  using Acc = T;
  struct Place {
    std::int64_t out_channel, in_channel, k;
    Windows::Sizes kernel;
  };
  DirectConv conv;

  [[nodiscard]] __device__ Acc identity() const { return T(0); }
  [[nodiscard]] __device__ Place place(std::int64_t output) const {
    const Windows& windows = conv.shape.windows;
    const std::int64_t rest = output / conv.shape.out_channels, o = output - rest * conv.shape.out_channels;
    const std::int64_t c = rest / windows.kernels(), k = rest - c * windows.kernels();
    return {o, o / conv.group_out * conv.group_in + c, k, positions_of(k, windows.kernel)};
  }
  __device__ void accumulate(Acc& acc, const Place& at, std::int64_t term) const {
    const Windows& windows = conv.shape.windows;
    const std::int64_t sample = term / windows.outputs(), t = term - sample * windows.outputs();
    const Windows::Sizes window = positions_of(t, windows.output);
    std::int64_t place = 0;
    for (std::size_t d = 0; d < Windows::kDims; ++d) {
      const std::int64_t position = windows.position(d, window[d], at.kernel[d]);
      if (!windows.inside(d, position)) return;
      place = place * windows.input[d] + position;
    }
    acc = add_product(acc, load<T>(conv.y.data, conv.y.dtype, conv.out.at(sample, at.out_channel, t)),
                      load<T>(conv.x.data, conv.x.dtype, conv.in.at(sample, at.in_channel, place)));
  }
  [[nodiscard]] __device__ Acc combine(const Acc& a, const Acc& b) const { return a + b; }
  __device__ void store(std::int64_t output, const Acc& acc) const {
    const Place at = place(output);
    const std::int64_t c = at.in_channel % conv.group_in;
    cuda::store(conv.weight.data, conv.weight.dtype,
                (at.out_channel * conv.group_in + c) * conv.shape.windows.kernels() + at.k, acc);
  }
};

void launch_over(Device device, void (*kernel)(DirectConv, std::int64_t), const DirectConv& conv,
                 const View& result) {
  const std::int64_t total = layout::numel(result.shape);
  const Grid grid = grid_for(total);
  mezzo::cuda::launch(kernel, dim3(grid.blocks), dim3(grid.threads), 0, mezzo::cuda::current_stream(device),
                      conv, total);
}

}  // namespace

void direct_forward(Device device, const ConvShape& shape, const View& y, const View& x, const View& weight,
                    const void* bias) {
  dispatch_real(conv_compute_dtype(y, x, weight), [&]<class T>(TypeTag<T>) {
    launch_over(device, direct_forward_kernel<T>, {shape, x, y, weight, bias}, y);
  });
}

void direct_input_gradient(Device device, const ConvShape& shape, const View& x, const View& y,
                           const View& weight, const void* bias) {
  dispatch_real(conv_compute_dtype(x, y, weight), [&]<class T>(TypeTag<T>) {
    launch_over(device, direct_input_kernel<T>, {shape, x, y, weight, bias}, x);
  });
}

void direct_weight_gradient(Device device, const ConvShape& shape, const View& weight, const View& x,
                            const View& y) {
  dispatch_real(conv_compute_dtype(weight, x, y), [&]<class T>(TypeTag<T>) {
    run_reduction(device, DirectWeightSums<T>{{shape, x, y, weight, nullptr}}, layout::numel(weight.shape),
                  shape.batch * shape.windows.outputs(), shape.channels_last);
  });
}

}  // namespace mezzo::kernels::cuda
