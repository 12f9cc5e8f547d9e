// Depthwise convolutions with small square kernels over two dims: a thread has a strip of rows in one column
// of the result and keeps the kernel in registers, so that it reads a place of the source once for all rows
// that need it (of a 3 x 3 kernel 3.75 places an element instead of 9), and finds out where its elements lie
// once for the strip. Terms are added in the order of the kernel's places; those of a weight's gradient
// strip by strip. No atomics: the bits depend on sizes only.
#include <algorithm>
#include <type_traits>

#include "mezzo/kernels/conv/cuda_algorithms.h"
#include "mezzo/kernels/conv/cuda_places.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/rows.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/math/float_parts.h"
#include "mezzo/kernels/reduce/cuda.h"

namespace mezzo::kernels::cuda {

namespace {

using math::detail::add_product;

/// Rows of a strip, and warps of a block that adds up a weight's gradient.
constexpr int kStrip = 8, kSumWarps = 8;

/// A map from `source` to `result`, whose strips these are. Everything is counted in 32 bits.
struct Strips {
  using Divisor = DivisorOf<std::int32_t>;
  Strips(const ConvShape& s, bool to_input)
      : rows(static_cast<int>(to_input ? s.windows.input[1] : s.windows.output[1])),
        columns(static_cast<int>(to_input ? s.windows.input[2] : s.windows.output[2])),
        source_rows(static_cast<int>(to_input ? s.windows.output[1] : s.windows.input[1])),
        source_columns(static_cast<int>(to_input ? s.windows.output[2] : s.windows.input[2])),
        padding_rows(static_cast<int>(s.windows.padding[1])),
        padding_columns(static_cast<int>(s.windows.padding[2])),
        channels(static_cast<int>(s.out_channels)),
        of_a_column((rows + kStrip - 1) / kStrip),
        total(static_cast<int>(s.batch) * channels * of_a_column * columns),
        channels_last(s.channels_last),
        result(to_input ? input_strides<int>(s) : output_strides<int>(s)),
        source(to_input ? output_strides<int>(s) : input_strides<int>(s)),
        by_columns(columns),
        by_strips(of_a_column),
        by_channels(channels),
        by_multiplier(static_cast<int>(s.out_channels / s.in_channels)) {}

  int rows, columns, source_rows, source_columns, padding_rows, padding_columns, channels;
  int of_a_column, total;
  bool channels_last;
  ImageStrides<int> result, source;
  Divisor by_columns, by_strips, by_channels, by_multiplier;

  struct Strip {
    int sample, channel, row, column;  ///< of the first element
  };
  /// Strips are numbered so that neighbours are neighbours in memory.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Strip strip(int index) const {
    int rest = index, channel = 0;
    if (channels_last) channel = take(by_channels, channels, rest);
    const int column = take(by_columns, columns, rest), number = take(by_strips, of_a_column, rest);
    if (!channels_last) channel = take(by_channels, channels, rest);
    return {rest, channel, number * kStrip, column};
  }

 private:
  /// rest % size, and rest /= size.
  [[nodiscard]] static __device__ MEZZO_ALWAYS_INLINE int take(const Divisor& by_size, int size, int& rest) {
    const int quotient = by_size(rest), remainder = rest - quotient * size;
    rest = quotient;
    return remainder;
  }
};

/// f(j, k1, values, valid) for every row j of a strip and row k1 of the kernel that covers a row of the
/// source there, k1 rising for each j. `values` are the kSize elements that a row of the kernel meets, of
/// which those with `valid` exist. kReversed: as the gradient of the input meets them, k rising towards
/// smaller places.
template <int kSize, int kStride, bool kReversed, class S, class F>
__device__ MEZZO_ALWAYS_INLINE void for_each_row(const Strips& all, const Strips::Strip& at, const S* plane,
                                                 const F& f) {
  constexpr int kStep = kReversed ? -1 : 1;
  const int first_row =
      kReversed ? at.row + kStrip - 1 + all.padding_rows : at.row * kStride - all.padding_rows;
  const int first_column =
      kReversed ? at.column + all.padding_columns : at.column * kStride - all.padding_columns;
  bool inside[kSize];
  MEZZO_UNROLL
  for (int k = 0; k < kSize; ++k) {
    const int column = first_column + kStep * k;
    inside[k] = column >= 0 && column < all.source_columns;
  }
  MEZZO_UNROLL
  for (int step = 0; step < (kStrip - 1) * kStride + kSize; ++step) {
    const int row = first_row + kStep * step;
    const bool in_rows = row >= 0 && row < all.source_rows;
    const int place = row * all.source_columns + first_column;
    float values[kSize];
    bool valid[kSize];
    MEZZO_UNROLL
    for (int k = 0; k < kSize; ++k) {
      valid[k] = in_rows && inside[k];
      values[k] = valid[k] ? convert<float>(plane[(place + kStep * k) * all.source.place]) : 0.0F;
    }
    MEZZO_UNROLL
    for (int j = 0; j < kStrip; ++j) {
      const int k1 = step - j * kStride;
      if (k1 >= 0 && k1 < kSize) f(kReversed ? kStrip - 1 - j : j, k1, values, valid);
    }
  }
}

/// Forward, or with kReversed the input's gradient of a convolution of stride 1. S: of source and weight.
template <class S, int kSize, int kStride, bool kReversed>
__global__ void __launch_bounds__(kThreads)
    strips_kernel(Strips all, const S* source, const S* weight, const void* bias, Array result) {
  for (std::int64_t i = first_index(); i < all.total; i += grid_size()) {
    const Strips::Strip at = all.strip(static_cast<int>(i));
    float w[kSize * kSize], sums[kStrip] = {};
    MEZZO_UNROLL
    for (int k = 0; k < kSize * kSize; ++k) w[k] = convert<float>(weight[at.channel * kSize * kSize + k]);
    const S* const plane = source + all.source.at(at.sample, all.by_multiplier(at.channel), 0);
    for_each_row<kSize, kStride, kReversed>(
        all, at, plane, [&](int j, int k1, const float(&values)[kSize], const bool(&valid)[kSize]) {
          MEZZO_UNROLL
          for (int k = 0; k < kSize; ++k) {
            if (valid[k]) sums[j] = add_product(sums[j], values[k], w[k1 * kSize + k]);
          }
        });
    const float shift = bias != nullptr ? load<float, Among::floating>(bias, result.dtype, at.channel) : 0.0F;
    const int first = all.result.at(at.sample, at.channel, at.row * all.columns + at.column);
    MEZZO_UNROLL
    for (int j = 0; j < kStrip; ++j) {
      if (at.row + j < all.rows)
        store<float, Among::floating>(result.data, result.dtype, first + j * all.columns * all.result.place,
                                      sums[j] + shift);
    }
  }
}

/// A block per channel and part of the batch adds up kSize^2 sums: parts[part, channel, k].
template <class S, int kSize, int kStride>
__global__ void __launch_bounds__(kSumWarps* kWarp)
    strip_sums_kernel(Strips all, int samples, const S* x, const S* y, float* parts) {
  constexpr int kSums = kSize * kSize;
  const int channel = static_cast<int>(blockIdx.x), part = static_cast<int>(blockIdx.y);
  const int of_a_plane = all.of_a_column * all.columns;
  float sums[kSums] = {};
  for (int sample = part; sample < samples; sample += static_cast<int>(gridDim.y)) {
    const S* const plane = x + all.source.at(sample, all.by_multiplier(channel), 0);
    const S* const gradients = y + all.result.at(sample, channel, 0);
    for (int i = static_cast<int>(threadIdx.x); i < of_a_plane; i += static_cast<int>(blockDim.x)) {
      const int number = all.by_columns(i), column = i - number * all.columns;
      const Strips::Strip at{sample, channel, number * kStrip, column};
      float g[kStrip];
      MEZZO_UNROLL
      for (int j = 0; j < kStrip; ++j) {
        const bool there = at.row + j < all.rows;
        g[j] = there ? convert<float>(gradients[((at.row + j) * all.columns + column) * all.result.place])
                     : 0.0F;
      }
      for_each_row<kSize, kStride, false>(
          all, at, plane, [&](int j, int k1, const float(&values)[kSize], const bool(&valid)[kSize]) {
            const bool there = at.row + j < all.rows;
            MEZZO_UNROLL
            for (int k = 0; k < kSize; ++k) {
              if (valid[k] && there)
                sums[k1 * kSize + k] = add_product(sums[k1 * kSize + k], g[j], values[k]);
            }
          });
    }
  }
  const Shared<float> of_warps(kSumWarps * kSums);
  MEZZO_UNROLL
  for (int k = 0; k < kSums; ++k) {
    const float sum = reduce_warp(sums[k], AddTerms{});
    if (threadIdx.x % kWarp == 0) of_warps.set(threadIdx.x / kWarp * kSums + static_cast<unsigned>(k), sum);
  }
  __syncthreads();
  for (unsigned k = threadIdx.x; k < kSums; k += blockDim.x) {
    float sum = 0;
    for (unsigned warp = 0; warp < kSumWarps; ++warp) sum += of_warps.get(warp * kSums + k);
    parts[(static_cast<std::int64_t>(part) * all.channels + channel) * kSums + k] = sum;
  }
}

/// Calls f(TypeTag<S>{}, size, stride), both integral constants, and is true, where there are kernels for the
/// shape and the dtype of both arrays that are read.
template <class F>
bool with_strips(const ConvShape& s, const View& a, const View& b, const View& result, const F& f) {
  const Windows& w = s.windows;
  const auto are = [](const Windows::Sizes& sizes, std::int64_t first, std::int64_t others) {
    return sizes[0] == first && sizes[1] == others && sizes[2] == others;
  };
  const std::int64_t size = w.kernel[1], stride = w.stride[1];
  const bool flat = w.input[0] == 1 && w.output[0] == 1 && w.padding[0] == 0;
  if (!flat || s.groups == 1 || s.groups != s.in_channels || a.dtype != b.dtype ||
      result.dtype == DType::f64 || !are(w.kernel, 1, size) || w.stride[1] != w.stride[2] ||
      w.dilation[1] != 1 || w.dilation[2] != 1 || !has_narrow_places(s))
    return false;
  const auto with_stored = [&](auto sizes, auto strides) {
    if (a.dtype == DType::f32) return f(TypeTag<float>{}, sizes, strides), true;
    if (a.dtype == DType::f16) return f(TypeTag<Half>{}, sizes, strides), true;
    if (a.dtype == DType::bf16) return f(TypeTag<BFloat16>{}, sizes, strides), true;
    return false;
  };
  using One = std::integral_constant<int, 1>;
  using Two = std::integral_constant<int, 2>;
  if (stride == 1 && size == 3) return with_stored(std::integral_constant<int, 3>{}, One{});
  if (stride == 1 && size == 5) return with_stored(std::integral_constant<int, 5>{}, One{});
  if (stride == 1 && size == 7) return with_stored(std::integral_constant<int, 7>{}, One{});
  if (stride == 2 && size == 3) return with_stored(std::integral_constant<int, 3>{}, Two{});
  return false;
}

template <class S, int kSize, int kStride, bool kReversed>
void launch_strips(Device device, const ConvShape& shape, const View& result, const View& source,
                   const View& weight, const void* bias) {
  const Strips all(shape, kReversed);
  start_resident(device, all.total, strips_kernel<S, kSize, kStride, kReversed>, all,
                 static_cast<const S*>(source.data), static_cast<const S*>(weight.data), bias,
                 array_of(result));
}

}  // namespace

bool strips_forward(Device device, const ConvShape& shape, const View& y, const View& x, const View& weight,
                    const void* bias) {
  return with_strips(shape, x, weight, y, [&]<class S>(TypeTag<S> /*stored*/, auto size, auto stride) {
    launch_strips<S, size(), stride(), false>(device, shape, y, x, weight, bias);
  });
}

bool strips_input_gradient(Device device, const ConvShape& shape, const View& x, const View& y,
                           const View& weight, const void* bias) {
  if (shape.windows.stride[1] != 1 || shape.out_channels != shape.in_channels) return false;
  return with_strips(shape, y, weight, x, [&]<class S>(TypeTag<S> /*stored*/, auto size, auto stride) {
    if constexpr (stride() == 1) launch_strips<S, size(), 1, true>(device, shape, x, y, weight, bias);
  });
}

bool strips_weight_gradient(Device device, const ConvShape& shape, const View& weight, const View& x,
                            const View& y) {
  // A block's threads have neighbouring places of one channel, which lie apart in channels-last images.
  if (shape.channels_last) return false;
  return with_strips(shape, x, y, weight, [&]<class S>(TypeTag<S> /*stored*/, auto size, auto stride) {
    constexpr std::int64_t kBusyBlocks = 132 * 8;
    constexpr int kSums = size() * size();
    const Strips all(shape, false);
    const std::int64_t wanted = (kBusyBlocks + shape.out_channels - 1) / shape.out_channels;
    const std::int64_t parts = std::min(wanted, shape.batch), n = shape.out_channels * kSums;
    const Scratch scratch(device, parts * n * std::int64_t{sizeof(float)});
    auto* const sums = static_cast<float*>(scratch.data());
    mezzo::cuda::launch(strip_sums_kernel<S, size(), stride()>,
                        dim3(static_cast<unsigned>(shape.out_channels), static_cast<unsigned>(parts)),
                        dim3(kSumWarps * kWarp), kSumWarps * kSums * sizeof(float),
                        mezzo::cuda::current_stream(device), all, static_cast<int>(shape.batch),
                        static_cast<const S*>(x.data), static_cast<const S*>(y.data), sums);
    reduce<float>(device, Sum<>{}, {weight.data, weight.dtype, {parts, n}, {0, 1}},
                  {sums, DType::f32, {parts, n}, {n, 1}});
  });
}

}  // namespace mezzo::kernels::cuda
