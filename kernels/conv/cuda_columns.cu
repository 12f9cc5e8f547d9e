// Convolutions as products of matrices. The rows of every product are places of y, the columns of its second
// factor are what a window covers: channels and kernel positions, in this order for row-major images and the
// other way round for channels-last images, so that neighbouring threads move neighbouring elements. Columns
// have x's own dtype, which keeps 16-bit products on tensor cores; columns of the input gradient are sums and
// have the compute dtype. The input gradient is gathered: each position adds up the windows that cover it.
#include <algorithm>
#include <atomic>
#include <optional>

#include "mezzo/kernels/conv/cuda_algorithms.h"
#include "mezzo/kernels/conv/cuda_places.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/copy.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/gemm/gemm.h"
#include "mezzo/kernels/math/quotient.h"
#include "mezzo/kernels/pool/cuda_windows.h"

namespace mezzo::kernels::cuda {

namespace {

std::atomic<std::int64_t>& column_bytes() {
  static std::atomic<std::int64_t> bytes{std::int64_t{256} << 20};
  return bytes;
}

/// The part of a convolution whose columns are in memory at a time: samples, places of y, and channels of
/// each group, from the first of each on. Places are all unless there is one sample.
struct Part {
  std::int64_t sample, samples, place, places, channel, channels;
};

/// How far columns' elements lie apart.
struct ColumnStrides {
  std::int64_t sample, group, channel, k, place;
};

/// A factor or result of a product, [groups] or [samples, groups] matrices.
struct Factor {
  const void* data;
  DType dtype;
  std::int64_t row, column, sample, group;

  [[nodiscard]] Factor at(std::int64_t offset) const {
    Factor result = *this;
    result.data = static_cast<const std::byte*>(data) + offset * size_of(dtype);
    return result;
  }
};

// --- kernels

/// Writes the columns of a part: a thread per element of x's channels and place of y, whose numbers in
/// `order` stay below `total`, writes all positions of the kernel. S is an unsigned integer of the element's
/// size; all bits 0 are 0.
template <class S>
__global__ void gather_columns(S* columns, const S* x, Windows windows, ImageOrder order,
                               ImageStrides<std::int64_t> in, Part part, ColumnStrides to,
                               std::int64_t total) {
  for (std::int64_t i = first_index(); i < total; i += grid_size()) {
    const ImageElement e = order.element(i);
    const std::int64_t group = quotient(e.channel, part.channels),
                       channel = e.channel - group * part.channels;
    S* const column =
        columns + e.sample * to.sample + group * to.group + channel * to.channel + e.place * to.place;
    const S* const from = x + in.at(part.sample + e.sample, e.channel, 0);
    for_each_covered(windows, position_of(part.place + e.place, windows.output),
                     [&](std::int64_t k, std::int64_t place) {
                       column[k * to.k] = place < 0 ? S(0) : from[place * in.place];
                     });
  }
}

/// x = sums of the columns that cover its positions, plus the bias: a thread per element of the part.
template <class T>
__global__ void gather_sums(Array x, const T* columns, const void* bias, Windows windows, ImageOrder order,
                            std::int64_t group_channels, ImageStrides<std::int64_t> in, Part part,
                            ColumnStrides from, std::int64_t total) {
  for (std::int64_t i = first_index(); i < total; i += grid_size()) {
    const ImageElement e = order.element(i);
    const std::int64_t group = quotient(e.channel, part.channels), c = e.channel - group * part.channels;
    const std::int64_t channel = group * group_channels + part.channel + c;
    const T* const column = columns + e.sample * from.sample + group * from.group + c * from.channel;
    T sum = T(0);
    for_each_cover(windows, position_of(e.place, windows.input),
                   [&](std::int64_t k, std::int64_t t) { sum += column[k * from.k + t * from.place]; });
    if (bias != nullptr) sum += load<T>(bias, x.dtype, channel);
    store(x.data, x.dtype, in.at(part.sample + e.sample, channel, e.place), sum);
  }
}

// --- host side

/// A convolution with what follows from its sizes.
struct Geometry {
  explicit Geometry(const ConvShape& s)
      : shape(s),
        kernel(s.windows.kernels()),
        places(s.windows.outputs()),
        group_in(s.in_channels / s.groups),
        group_out(s.out_channels / s.groups),
        in(input_strides<std::int64_t>(s)),
        out(output_strides<std::int64_t>(s)) {
    const Windows& w = s.windows;
    pointwise = kernel == 1 && w.input == w.output;
    for (std::size_t d = 0; d < Windows::kDims; ++d)
      pointwise = pointwise && w.stride[d] == 1 && w.padding[d] == 0;
  }

  ConvShape shape;
  std::int64_t kernel, places, group_in, group_out;
  ImageStrides<std::int64_t> in, out;
  bool pointwise;  ///< each window covers the one place of its own number

  /// Whether columns go channel by channel.
  [[nodiscard]] bool channels_last() const { return shape.channels_last; }
  /// Of x's channels, as many as the part has, at so many places.
  [[nodiscard]] ImageOrder order(const Part& part, std::int64_t of_places) const {
    return {shape.groups * part.channels, of_places, shape.channels_last};
  }
  /// The elements of x, or of y, as factors of a part: rows are places.
  [[nodiscard]] Factor input(const View& x, const Part& part) const {
    return Factor{x.data, x.dtype, in.place, in.channel, in.sample, group_in * in.channel}.at(
        in.at(part.sample, 0, part.place));
  }
  [[nodiscard]] Factor output(const View& y, const Part& part) const {
    return Factor{y.data, y.dtype, out.place, out.channel, out.sample, group_out * out.channel}.at(
        out.at(part.sample, 0, part.place));
  }
  /// All groups of the part of a weight whose input channels, times kernel positions, are `columns`.
  [[nodiscard]] Factor weight(const void* data, DType dtype, std::int64_t columns) const {
    return {data, dtype, columns, 1, 0, group_out * columns};
  }
};

/// Where columns of a part lie. `merged`: places of all samples are one run, as the terms of a sum.
ColumnStrides column_strides(const Geometry& s, const Part& part, bool merged) {
  const std::int64_t group = part.channels * s.kernel;
  if (s.channels_last())
    return {part.places * s.shape.groups * group, group, 1, part.channels, s.shape.groups * group};
  const std::int64_t places = merged ? part.samples * part.places : part.places;
  return {merged ? part.places : s.shape.groups * group * places, group * places, s.kernel * places, places,
          1};
}
Factor columns_factor(const Geometry& s, const void* data, DType dtype, const ColumnStrides& strides) {
  return {data,           dtype,        strides.place, s.channels_last() ? strides.channel : strides.k,
          strides.sample, strides.group};
}

/// Calls f for parts of at most conv_column_bytes() / bytes_per_place places (of one at least), whole samples
/// if one fits.
template <class F>
void for_each_part(const Geometry& s, std::int64_t bytes_per_place, const F& f) {
  if (s.places == 0) return;
  const std::int64_t most =
      std::max<std::int64_t>(conv_column_bytes() / std::max<std::int64_t>(bytes_per_place, 1), 1);
  const std::int64_t samples = std::max<std::int64_t>(most / s.places, 1), places = std::min(most, s.places);
  for (std::int64_t n = 0; n < s.shape.batch; n += samples) {
    for (std::int64_t t = 0; t < s.places; t += places) {
      f(Part{n, std::min(samples, s.shape.batch - n), t, std::min(places, s.places - t), 0, s.group_in});
    }
  }
}

/// c = a . b + beta c + bias for [samples, groups] matrices, batched over the more numerous of the two.
void multiply(Device device, GemmArgs args, std::int64_t samples, std::int64_t groups, const Factor& a,
              const Factor& b, const Factor& c) {
  const bool over_groups = groups >= samples;
  const auto batch_stride = [&](const Factor& x) { return over_groups ? x.group : x.sample; };
  const auto step = [&](const Factor& x) { return over_groups ? x.sample : x.group; };
  args.batch = over_groups ? groups : samples;
  args.a_dtype = a.dtype, args.a_row_stride = a.row, args.a_col_stride = a.column;
  args.b_dtype = b.dtype, args.b_row_stride = b.row, args.b_col_stride = b.column;
  args.c_dtype = c.dtype, args.c_row_stride = c.row, args.c_col_stride = c.column;
  args.a_batch_stride = batch_stride(a), args.b_batch_stride = batch_stride(b);
  args.c_batch_stride = batch_stride(c);
  for (std::int64_t i = 0; i < (over_groups ? samples : groups); ++i) {
    args.a = a.at(i * step(a)).data, args.b = b.at(i * step(b)).data;
    args.c = const_cast<void*>(c.at(i * step(c)).data);
    cuda::gemm(device, args);
  }
}

/// result = rows of places times `b`; a bias goes into the product where all matrices share it.
void multiply_places(Device device, const Geometry& s, const Part& part, std::int64_t columns,
                     std::int64_t terms, const Factor& a, const Factor& b, const Factor& result,
                     const void* bias, double beta) {
  const bool merged = s.channels_last();
  GemmArgs args;
  args.m = merged ? part.samples * part.places : part.places, args.n = columns, args.k = terms;
  args.bias = bias, args.beta = beta;
  multiply(device, args, merged ? 1 : part.samples, s.shape.groups, a, b, result);
}

Factor transposed(const Factor& x) { return {x.data, x.dtype, x.column, x.row, x.sample, x.group}; }

/// The bias as products add it: with one group as their bias; with several it is written into the result
/// first, and products add to that.
struct ProductBias {
  ProductBias(Device device, const ConvShape& shape, const View& result, const void* data) {
    if (data == nullptr) return;
    if (shape.groups == 1) {
      bias = data;
    } else {
      copy(device, result, {const_cast<void*>(data), result.dtype, result.shape, {0, 1, 0, 0, 0}});
      beta = 1;
    }
  }
  const void* bias = nullptr;
  double beta = 0;
};

/// The weight of a part's channels with its columns in the order of the columns: a copy for channels-last
/// images with more than one kernel position or with part of the channels.
class ColumnWeight {
 public:
  ColumnWeight(Device device, const Geometry& s, const View& weight, const Part& part) {
    const std::int64_t columns = part.channels * s.kernel;
    const std::byte* const data =
        static_cast<const std::byte*>(weight.data) + part.channel * s.kernel * size_of(weight.dtype);
    const bool in_order = !s.channels_last() || s.kernel == 1 || part.channels == 1;
    if (in_order) {
      const std::int64_t row = s.group_in * s.kernel;
      factor_ = {data, weight.dtype, row, 1, 0, s.group_out * row};
      return;
    }
    copy_.emplace(device, s.shape.out_channels * columns * size_of(weight.dtype));
    const Shape sizes{s.shape.out_channels, part.channels, s.kernel};
    copy(device, {copy_->data(), weight.dtype, sizes, {columns, 1, part.channels}},
         {const_cast<std::byte*>(data), weight.dtype, sizes, {s.group_in * s.kernel, s.kernel, 1}});
    factor_ = s.weight(copy_->data(), weight.dtype, columns);
  }
  /// Rows are output channels.
  [[nodiscard]] const Factor& factor() const { return factor_; }

 private:
  std::optional<Scratch> copy_;
  Factor factor_{};
};

/// The columns of a part of x, in memory of their own.
class Columns {
 public:
  Columns(Device device, const Geometry& s, const View& x, const Part& part, bool merged)
      : memory_(device, part.samples * part.places * s.shape.in_channels * s.kernel * size_of(x.dtype)) {
    const ColumnStrides strides = column_strides(s, part, merged);
    const std::int64_t total = part.samples * part.places * s.shape.in_channels;
    factor_ = columns_factor(s, memory_.data(), x.dtype, strides);
    with_bits(size_of(x.dtype), [&]<class S>(S /*bits*/) {
      start_resident(device, total, gather_columns<S>, static_cast<S*>(memory_.data()),
                     static_cast<const S*>(x.data), s.shape.windows, s.order(part, part.places), s.in, part,
                     strides, total);
    });
  }
  [[nodiscard]] const Factor& factor() const { return factor_; }

 private:
  Scratch memory_;
  Factor factor_{};
};

void launch_sums(Device device, const Geometry& s, const View& x, const View& columns, const void* bias,
                 const Part& part) {
  const std::int64_t total = part.samples * s.shape.groups * part.channels * s.shape.windows.inputs();
  dispatch_real(columns.dtype, [&]<class T>(TypeTag<T> /*number*/) {
    start_resident(device, total, gather_sums<T>, array_of(x), static_cast<const T*>(columns.data), bias,
                   s.shape.windows, s.order(part, s.shape.windows.inputs()), s.group_in, s.in, part,
                   column_strides(s, part, false), total);
  });
}

/// The input gradient of windows that cover one place each.
void pointwise_input_gradient(Device device, const Geometry& s, const View& x, const View& y,
                              const View& weight, const void* bias) {
  const ProductBias added(device, s.shape, x, bias);
  for_each_part(s, 0, [&](const Part& part) {
    const ColumnWeight w(device, s, weight, part);
    multiply_places(device, s, part, s.group_in, s.group_out, s.output(y, part), w.factor(), s.input(x, part),
                    added.bias, added.beta);
  });
}

/// y of a part with its places of all samples in one run for each channel, as a factor whose rows are
/// channels; a copy where they are not in one run.
class MergedOutput {
 public:
  MergedOutput(Device device, const Geometry& s, const View& y, const Part& part) {
    const Factor given = s.output(y, part);
    factor_ = transposed(given);
    if (s.channels_last() || part.samples == 1) return;
    const std::int64_t channels = s.shape.out_channels, run = part.samples * part.places;
    copy_.emplace(device, channels * run * size_of(y.dtype));
    const Shape sizes{channels, part.samples, part.places};
    copy(device, {copy_->data(), y.dtype, sizes, {run, part.places, 1}},
         {const_cast<void*>(given.data), y.dtype, sizes, {s.out.channel, s.out.sample, s.out.place}});
    factor_ = {copy_->data(), y.dtype, run, 1, 0, s.group_out * run};
  }
  [[nodiscard]] const Factor& factor() const { return factor_; }

 private:
  std::optional<Scratch> copy_;
  Factor factor_{};
};

/// `sums` += the weight gradient of a part.
void add_weight_gradient(Device device, const Geometry& s, const Factor& sums, const View& x, const View& y,
                         const Part& part, double beta) {
  const MergedOutput out(device, s, y, part);
  const bool as_it_lies = s.pointwise && (s.channels_last() || part.samples == 1);
  std::optional<Columns> columns;
  if (!as_it_lies) columns.emplace(device, s, x, part, true);
  GemmArgs args;
  args.m = s.group_out, args.n = s.group_in * s.kernel, args.k = part.samples * part.places;
  args.beta = beta;
  multiply(device, args, 1, s.shape.groups, out.factor(), as_it_lies ? s.input(x, part) : columns->factor(),
           sums);
}

}  // namespace

std::int64_t conv_column_bytes() { return column_bytes(); }
void set_conv_column_bytes(std::int64_t bytes) { column_bytes() = bytes; }

void columns_forward(Device device, const ConvShape& shape, const View& y, const View& x, const View& weight,
                     const void* bias) {
  const Geometry s(shape);
  const ProductBias added(device, shape, y, bias);
  const ColumnWeight w(device, s, weight, {0, 0, 0, 0, 0, s.group_in});
  const std::int64_t column = s.group_in * s.kernel;
  const std::int64_t bytes = s.pointwise ? 0 : shape.groups * column * size_of(x.dtype);
  for_each_part(s, bytes, [&](const Part& part) {
    std::optional<Columns> columns;
    if (!s.pointwise) columns.emplace(device, s, x, part, false);
    multiply_places(device, s, part, s.group_out, column, s.pointwise ? s.input(x, part) : columns->factor(),
                    transposed(w.factor()), s.output(y, part), added.bias, added.beta);
  });
}

void columns_input_gradient(Device device, const ConvShape& shape, const View& x, const View& y,
                            const View& weight, const void* bias) {
  const Geometry s(shape);
  if (s.pointwise) return pointwise_input_gradient(device, s, x, y, weight, bias);
  const DType compute = conv_compute_dtype(x, y, weight);
  // Channels of x have sums of their own, places of y do not: a sample too large is cut by channels.
  const std::int64_t per_channel =
      std::max<std::int64_t>(shape.groups * s.kernel * s.places * size_of(compute), 1);
  const std::int64_t most = std::max<std::int64_t>(conv_column_bytes() / per_channel, 1);
  const std::int64_t channels = std::min(most, s.group_in), samples = channels == 0 ? 1 : most / channels;
  for (std::int64_t c = 0; c < s.group_in; c += channels) {
    const Part all{0, shape.batch, 0, s.places, c, std::min(channels, s.group_in - c)};
    const ColumnWeight w(device, s, weight, all);
    for (std::int64_t n = 0; n < shape.batch; n += samples) {
      const Part part{n, std::min(samples, shape.batch - n), 0, s.places, c, all.channels};
      const Scratch memory(device, part.samples * part.channels * per_channel);
      const View columns{memory.data(), compute, {}, {}};
      multiply_places(device, s, part, part.channels * s.kernel, s.group_out, s.output(y, part), w.factor(),
                      columns_factor(s, columns.data, compute, column_strides(s, part, false)), nullptr, 0);
      launch_sums(device, s, x, columns, bias, part);
    }
  }
}

void columns_weight_gradient(Device device, const ConvShape& shape, const View& weight, const View& x,
                             const View& y) {
  const Geometry s(shape);
  const std::int64_t column = s.group_in * s.kernel;
  const DType compute = conv_compute_dtype(weight, x, y);
  const bool direct = weight.dtype == compute && (!s.channels_last() || s.kernel == 1 || s.group_in == 1);
  const Scratch memory(device, direct ? 0 : shape.out_channels * column * size_of(compute));
  const Factor sums = s.weight(direct ? weight.data : memory.data(), compute, column);
  double beta = 0;
  const std::int64_t bytes = shape.groups * column * size_of(x.dtype) + shape.out_channels * size_of(y.dtype);
  for_each_part(s, bytes, [&](const Part& part) {
    add_weight_gradient(device, s, sums, x, y, part, beta);
    beta = 1;
  });
  if (direct) return;
  const Shape sizes{shape.out_channels, s.group_in, s.kernel};
  const Dims order = s.channels_last() ? Dims{column, 1, s.group_in} : Dims{column, s.kernel, 1};
  copy(device, {weight.data, weight.dtype, sizes, {column, s.kernel, 1}},
       {memory.data(), compute, sizes, order});
}

}  // namespace mezzo::kernels::cuda
