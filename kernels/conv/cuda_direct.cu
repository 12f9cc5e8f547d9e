// Convolutions with few channels per group, term by term. No atomics: the bits depend on sizes only.
#include <atomic>
#include <type_traits>

#include "mezzo/kernels/conv/cuda_algorithms.h"
#include "mezzo/kernels/conv/cuda_places.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/math/float_parts.h"
#include "mezzo/kernels/reduce/cuda_kernels.h"

namespace mezzo::kernels::cuda {

namespace {

using math::detail::add_product;

/// Sizes and arrays as the kernels take them. S: the type of both arrays that are read, or void for any.
template <class T, class Index, class S>
struct DirectConv {
  DirectConv(const ConvShape& s, const View& x_view, const View& y_view, const View& weight_view,
             const void* bias_data)
      : windows(s.windows),
        x{x_view.data, x_view.dtype},
        y{y_view.data, y_view.dtype},
        weight{weight_view.data, weight_view.dtype},
        bias(bias_data),
        in(input_strides<Index>(s)),
        out(output_strides<Index>(s)),
        group_in(static_cast<Index>(s.in_channels / s.groups)),
        group_out(static_cast<Index>(s.out_channels / s.groups)),
        by_group_in(group_in),
        by_group_out(group_out) {}

  using Number = T;
  using Counter = Index;

  WindowPlaces<Index> windows;
  Array x, y, weight;
  const void* bias;  ///< of the result's dtype, or null
  ImageStrides<Index> in, out;
  Index group_in, group_out;
  DivisorOf<Index> by_group_in, by_group_out;

  [[nodiscard]] static __device__ MEZZO_ALWAYS_INLINE T read(const Array& array, Index i) {
    if constexpr (std::is_void_v<S>)
      return load<T, Among::floating>(array.data, array.dtype, i);
    else
      return convert<T>(static_cast<const S*>(array.data)[i]);
  }
  /// The first element (o, c, 0) of the weight; c counts within o's group.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Index weight_of(Index o, Index c) const {
    return (o * group_in + c) * windows.kernel.count();
  }
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE T bias_at(DType dtype, Index channel) const {
    return bias != nullptr ? load<T, Among::floating>(bias, dtype, channel) : T(0);
  }
};

/// A thread per element of y. Indices stay below its number of elements, and for_each_covered gives places
/// of x only.
template <class Conv>
__global__ void direct_forward_kernel(Conv conv, ImageOrder<typename Conv::Counter> order,
                                      std::int64_t total) {
  using T = typename Conv::Number;
  using Index = typename Conv::Counter;
  for (std::int64_t i = first_index(); i < total; i += grid_size()) {
    const ImageElement<Index> e = order.element(static_cast<Index>(i));
    const Position<Index> t = conv.windows.output.position(e.place);
    const Index first = conv.by_group_out(e.channel) * conv.group_in;
    T sum = T(0);
    for (Index c = 0; c < conv.group_in; ++c) {
      const Index image = conv.in.at(e.sample, first + c, 0), weights = conv.weight_of(e.channel, c);
      conv.windows.for_each_covered(t, [&](Index k, Index place) {
        if (place < 0) return;
        sum = add_product(sum, Conv::read(conv.x, image + place * conv.in.place),
                          Conv::read(conv.weight, weights + k));
      });
    }
    store<T, Among::floating>(conv.y.data, conv.y.dtype, i, sum + conv.bias_at(conv.y.dtype, e.channel));
  }
}

/// A thread per element of x, over the windows that cover it.
template <class Conv>
__global__ void direct_input_kernel(Conv conv, ImageOrder<typename Conv::Counter> order, std::int64_t total) {
  using T = typename Conv::Number;
  using Index = typename Conv::Counter;
  for (std::int64_t i = first_index(); i < total; i += grid_size()) {
    const ImageElement<Index> e = order.element(static_cast<Index>(i));
    const Position<Index> p = conv.windows.input.position(e.place);
    const Index group = conv.by_group_in(e.channel), c = e.channel - group * conv.group_in;
    T sum = T(0);
    for (Index o = group * conv.group_out; o < (group + 1) * conv.group_out; ++o) {
      const Index image = conv.out.at(e.sample, o, 0), weights = conv.weight_of(o, c);
      conv.windows.for_each_cover(p, [&](Index k, Index t) {
        sum = add_product(sum, Conv::read(conv.y, image + t * conv.out.place),
                          Conv::read(conv.weight, weights + k));
      });
    }
    store<T, Among::floating>(conv.x.data, conv.x.dtype, i, sum + conv.bias_at(conv.x.dtype, e.channel));
  }
}

/// The weight gradient as a reduction (reduce/cuda_kernels.h): an output is an element of the weight, its
/// terms are the windows of all samples. Outputs are counted with the output channel last, which makes
/// neighbours of them neighbours in the memory of channels-last images.
template <class Conv>
struct DirectWeightSums {
  using Acc = typename Conv::Number;
  using Index = typename Conv::Counter;
  struct Place {
    Index weight, x, y;           ///< the element, and the first ones of the channels
    Index start[Windows::kDims];  ///< the position of the input that the first window covers
  };
  DirectWeightSums(const ConvShape& shape, const Conv& arrays)
      : conv(arrays),
        outputs(arrays.windows.output.count()),
        by_outputs(outputs),
        by_kernels(arrays.windows.kernel.count()),
        out_channels(static_cast<Index>(shape.out_channels)),
        by_out_channels(out_channels) {}

  Conv conv;
  Index outputs;
  DivisorOf<Index> by_outputs, by_kernels;
  Index out_channels;
  DivisorOf<Index> by_out_channels;

  [[nodiscard]] __device__ Acc identity() const { return Acc(0); }
  [[nodiscard]] __device__ Place place(std::int64_t output) const {
    const auto number = static_cast<Index>(output);
    const Index rest = by_out_channels(number), o = number - rest * out_channels;
    const Index c = by_kernels(rest), k = rest - c * conv.windows.kernel.count();
    Place at{conv.weight_of(o, c) + k,
             conv.in.at(0, conv.by_group_out(o) * conv.group_in + c, 0),
             conv.out.at(0, o, 0),
             {}};
    const Position<Index> kernel = conv.windows.kernel.position(k);
    for (std::size_t d = 0; d < Windows::kDims; ++d)
      at.start[d] = kernel.at[d] * conv.windows.dilation[d] - conv.windows.padding[d];
    return at;
  }
  __device__ MEZZO_ALWAYS_INLINE void accumulate(Acc& acc, const Place& at, std::int64_t term) const {
    const auto number = static_cast<Index>(term);
    const Index sample = by_outputs(number), t = number - sample * outputs;
    const Position<Index> window = conv.windows.output.position(t);
    Index position[Windows::kDims];
    for (std::size_t d = 0; d < Windows::kDims; ++d) {
      position[d] = window.at[d] * conv.windows.stride[d] + at.start[d];
      if (position[d] < 0 || position[d] >= conv.windows.input.size[d]) return;
    }
    const Index place = conv.windows.input.place(position[0], position[1], position[2]);
    acc = add_product(acc, Conv::read(conv.y, at.y + conv.out.at(sample, 0, t)),
                      Conv::read(conv.x, at.x + conv.in.at(sample, 0, place)));
  }
  [[nodiscard]] __device__ Acc combine(const Acc& a, const Acc& b) const { return a + b; }
  __device__ void store(std::int64_t output, const Acc& acc) const {
    cuda::store<Acc, Among::floating>(conv.weight.data, conv.weight.dtype, place(output).weight, acc);
  }
};

/// A thread per element of `result`, images of `channels` channels of `places` places.
template <class Conv, class Kernel>
void launch_over(Device device, Kernel kernel, const Conv& conv, const ConvShape& shape, const View& result,
                 std::int64_t channels, std::int64_t places) {
  const std::int64_t total = layout::numel(result.shape);
  const ImageOrder<typename Conv::Counter> order(channels, places, shape.channels_last);
  start_resident(device, total, kernel, conv, order, total);
}

std::atomic<bool>& narrow_places() {
  static std::atomic<bool> allowed{true};
  return allowed;
}

/// Calls f(TypeTag<DirectConv>{}) with the kind for arrays a and b that are read and a result. Where both
/// have one dtype and indices are narrow, which is nearly always, loads need no choice.
template <class F>
void with_direct_conv(const ConvShape& shape, const View& a, const View& b, const View& result, const F& f) {
  const DType compute = conv_compute_dtype(a, b, result);
  dispatch_real(compute, [&]<class T>(TypeTag<T> /*number*/) {
    if (!narrow_places() || !has_narrow_places(shape)) return f(TypeTag<DirectConv<T, std::int64_t, void>>{});
    const auto narrow = [&]<class S>(TypeTag<S> /*stored*/) { f(TypeTag<DirectConv<T, std::int32_t, S>>{}); };
    if (a.dtype != b.dtype) return narrow(TypeTag<void>{});
    if (a.dtype == compute) return narrow(TypeTag<T>{});
    if constexpr (std::is_same_v<T, float>) {
      if (a.dtype == DType::f16) return narrow(TypeTag<Half>{});
      if (a.dtype == DType::bf16) return narrow(TypeTag<BFloat16>{});
    }
    narrow(TypeTag<void>{});
  });
}

}  // namespace

void set_direct_narrow_places(bool allowed) { narrow_places() = allowed; }

void direct_forward(Device device, const ConvShape& shape, const View& y, const View& x, const View& weight,
                    const void* bias) {
  with_direct_conv(shape, x, weight, y, [&]<class Conv>(TypeTag<Conv> /*conv*/) {
    launch_over(device, direct_forward_kernel<Conv>, Conv(shape, x, y, weight, bias), shape, y,
                shape.out_channels, shape.windows.outputs());
  });
}

void direct_input_gradient(Device device, const ConvShape& shape, const View& x, const View& y,
                           const View& weight, const void* bias) {
  with_direct_conv(shape, y, weight, x, [&]<class Conv>(TypeTag<Conv> /*conv*/) {
    launch_over(device, direct_input_kernel<Conv>, Conv(shape, x, y, weight, bias), shape, x,
                shape.in_channels, shape.windows.inputs());
  });
}

void direct_weight_gradient(Device device, const ConvShape& shape, const View& weight, const View& x,
                            const View& y) {
  with_direct_conv(shape, x, y, weight, [&]<class Conv>(TypeTag<Conv> /*conv*/) {
    const DirectWeightSums<Conv> sums(shape, Conv(shape, x, y, weight, nullptr));
    run_reduction(device, sums, layout::numel(weight.shape), shape.batch * shape.windows.outputs(),
                  shape.channels_last);
  });
}

}  // namespace mezzo::kernels::cuda
